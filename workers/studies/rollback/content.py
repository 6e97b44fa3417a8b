"""Who wrote a branch. A content is a writer: it says what the branch says when its carrier names a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workers.errors import ConfigError, nearest
from workers.studies.rollback.places import filled, said
from workers.studies.rollback.texts import EffectCard, Texts


@dataclass(frozen=True, slots=True)
class Said:
    """A branch's text, and the carrier as it stands in it."""

    carrier: str
    branch: str


Writer = Callable[[Texts, EffectCard, Mapping[str, Any], Mapping[str, str]], Said]
"""(texts, effect, axes, values) → what is said. `values` fill the places; `{target}` is the target to name."""


def ours(texts: Texts, effect: EffectCard, axes: Mapping[str, Any], values: Mapping[str, str]) -> Said:
    """The effect's carrier of the episode's strength, in the vehicle's words."""
    strength, vehicle = axes["strength"], axes["vehicle"]
    carrier = said(f"effects.{axes['effect_type']}.carriers.{strength}", effect.carriers[strength], values)
    return Said(carrier, filled(f"vehicles.{vehicle}", texts.vehicles[vehicle], {**values, "carrier": carrier}))


_WRITERS: dict[str, Writer] = {"ours": ours}


def names() -> tuple[str, ...]:
    """The levels of the axis `content`."""
    return tuple(_WRITERS)


def writer(level: str) -> Writer:
    """The writer of that level.

    Raises:
        ConfigError: there is none.
    """
    if level not in _WRITERS:
        raise ConfigError(f"study.levels.content: unknown level {level!r}{nearest(level, names())}")
    return _WRITERS[level]
