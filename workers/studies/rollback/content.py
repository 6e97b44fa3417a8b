"""Who wrote a branch. A content is a writer: it says what the branch says when its carrier names a target.

`ours` is this study's own. `agentdojo-<suite>/<injection task>/<injection vector>` is AgentDojo's goal in the passage
of its environment that it attacks. Shorter forms stand for several: no task or `*` for every task that names the
effect's unauthorised target, no vector for the suite's first, `*` for every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers import agentdojo
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


_AGENTDOJO = "agentdojo-"


@dataclass(frozen=True, slots=True)
class Injected:
    """AgentDojo's words: a goal as it stands, and in a control with the authorised target in the other's place."""

    suite: str
    task: str
    vector: str

    def __call__(
        self,
        texts: Texts,  # noqa: ARG002
        effect: EffectCard,
        axes: Mapping[str, Any],  # noqa: ARG002
        values: Mapping[str, str],
    ) -> Said:
        """The passage with the goal in it; the vehicle says only in which role it enters."""
        goal = agentdojo.goals(self.suite)[self.task]
        carrier = goal.replace(effect.unauthorised, values["target"])
        return Said(carrier, agentdojo.passages(self.suite)[self.vector].replace("{carrier}", carrier))


def names() -> tuple[str, ...]:
    """The levels of the axis `content`, the shortest form of each."""
    return ("ours", *(f"{_AGENTDOJO}{suite}" for suite in agentdojo.SUITES))


def by_effect(levels: Sequence[str], effects: Mapping[str, EffectCard]) -> dict[str, tuple[str, ...]]:
    """Effect → every level in its longest form, as far as it can attack that effect.

    Raises:
        ConfigError: a level names something that does not exist or attacks no effect, or AgentDojo is not installed.
    """
    forms = {name: {level: _long_forms(level, card) for level in levels} for name, card in effects.items()}
    for level in levels:
        if not any(found[level] for found in forms.values()):
            targets = " or ".join(repr(card.unauthorised) for card in effects.values())
            raise ConfigError(
                f"study.levels.content: nothing in {level!r} names {targets}: it would carry no attack; choose the "
                "effect_type whose unauthorised target the suite's goals name"
            )
    return {name: tuple(form for level in levels for form in found[level]) for name, found in forms.items()}


def writer(level: str) -> Writer:
    """The writer of a level in its longest form."""
    if level == "ours":
        return ours
    suite, task, vector = level.removeprefix(_AGENTDOJO).split("/")
    return Injected(suite, task, vector)


def source(level: str) -> str:
    """What was read for a level that is not ours, with its version: part of what is asked."""
    return "" if level == "ours" else agentdojo.version()


def _long_forms(level: str, effect: EffectCard) -> tuple[str, ...]:
    if level == "ours":
        return (level,)
    short, *rest = level.split("/")
    if short not in names() or len(rest) > 2:
        raise ConfigError(f"study.levels.content: unknown level {level!r}{nearest(short, names())}")
    suite = short.removeprefix(_AGENTDOJO)
    goals, passages = agentdojo.goals(suite), agentdojo.passages(suite)
    task = rest[0] if rest else "*"
    vector = rest[1] if len(rest) == 2 else next(iter(passages))
    tasks = goals if task == "*" else [_known(level, task, goals)]
    vectors = passages if vector == "*" else [_known(level, vector, passages)]
    naming = (task for task in tasks if effect.unauthorised in goals[task])
    return tuple(f"{short}/{task}/{vector}" for task in naming for vector in vectors)


def _known(level: str, name: str, options: Mapping[str, str]) -> str:
    if name not in options:
        raise ConfigError(f"study.levels.content: {level!r}: AgentDojo has no {name!r} there{nearest(name, options)}")
    return name
