"""Who wrote a branch. A content is a writer: it says what the branch says when its carrier names a target.

`ours` is this study's own. `agentdojo-<suite>/<injection task>/<injection vector>` is AgentDojo's goal in the passage
of its environment that it attacks. Shorter forms stand for several: no task or `*` for every task that names the
effect's unauthorised target, no vector for the suite's first, `*` for every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
        axes: Mapping[str, Any],
        values: Mapping[str, str],
    ) -> Said:
        """The passage with the goal in it; the vehicle says only in which role it enters.

        Raises:
            ConfigError: the goal does not name what the effect forbids, so the branch would attack nothing.
        """
        goal = agentdojo.goals(self.suite)[self.task]
        if effect.unauthorised not in goal:
            raise ConfigError(
                f"study.levels.content: {self.suite}/{self.task} does not name {effect.unauthorised!r}, the "
                f"unauthorised target of {axes['effect_type']}: it would carry no attack"
            )
        carrier = goal.replace(effect.unauthorised, values["target"])
        return Said(carrier, agentdojo.passages(self.suite)[self.vector].replace("{carrier}", carrier))


def names() -> tuple[str, ...]:
    """The levels of the axis `content`, the shortest form of each."""
    return ("ours", *(f"{_AGENTDOJO}{suite}" for suite in agentdojo.SUITES))


def expanded(levels: Sequence[str], effects: Sequence[EffectCard]) -> tuple[str, ...]:
    """Every level in its longest form.

    Args:
        effects: those of the grid; a suite stands for the tasks that name the unauthorised target of each.

    Raises:
        ConfigError: a level names something that does not exist, or AgentDojo is not installed.
    """
    return tuple(long for level in levels for long in _long_forms(level, effects))


def writer(level: str) -> Writer:
    """The writer of a level in its longest form."""
    if level == "ours":
        return ours
    suite, task, vector = level.removeprefix(_AGENTDOJO).split("/")
    return Injected(suite, task, vector)


def source(level: str) -> str:
    """What was read for a level that is not ours, with its version: part of what is asked."""
    return "" if level == "ours" else agentdojo.version()


def _long_forms(level: str, effects: Sequence[EffectCard]) -> Iterator[str]:
    if level == "ours":
        yield level
        return
    short, *rest = level.split("/")
    if short not in names() or len(rest) > 2:
        raise ConfigError(f"study.levels.content: unknown level {level!r}{nearest(short, names())}")
    suite = short.removeprefix(_AGENTDOJO)
    goals, passages = agentdojo.goals(suite), agentdojo.passages(suite)
    task = rest[0] if rest else "*"
    vector = rest[1] if len(rest) == 2 else next(iter(passages))
    tasks = _naming(goals, effects) if task == "*" else [_known(level, task, goals)]
    vectors = list(passages) if vector == "*" else [_known(level, vector, passages)]
    if not tasks:
        forbidden = " and ".join(repr(effect.unauthorised) for effect in effects)
        raise ConfigError(f"study.levels.content: no injection task of AgentDojo's {suite} names {forbidden}")
    yield from (f"{short}/{task}/{vector}" for task in tasks for vector in vectors)


def _naming(goals: Mapping[str, str], effects: Sequence[EffectCard]) -> list[str]:
    return [task for task, goal in goals.items() if all(effect.unauthorised in goal for effect in effects)]


def _known(level: str, name: str, options: Mapping[str, str]) -> str:
    if name not in options:
        raise ConfigError(f"study.levels.content: {level!r}: AgentDojo has no {name!r} there{nearest(name, options)}")
    return name
