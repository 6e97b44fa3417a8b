"""What to write into a model's YAML so that its chat template takes an episode. Every offer has been tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

from workers.episode import Episode, Message
from workers.errors import IsolationError, TemplateError
from workers.turns import acknowledged, folded

if TYPE_CHECKING:
    from workers.engine import Engine, Render

ACKNOWLEDGEMENT = "Understood."
CLOCK = "clock: 2025-01-01"
"""Offered; what stands in the YAML is the user's choice."""


@dataclass(frozen=True)
class _Option:
    """One line of YAML, and what it does."""

    line: str
    arrange: Callable[[Sequence[Message]], tuple[Message, ...]] = tuple
    recast: Callable[[Episode], Episode] = lambda episode: episode


@dataclass(frozen=True)
class _Rearranged:
    """An engine as it would render under more options."""

    engine: Engine
    options: Sequence[_Option]

    def render(self, messages: Sequence[Message]) -> Render:
        for option in self.options:
            messages = option.arrange(messages)
        return self.engine.render(messages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def mend(attempt: Callable[[Engine, Episode], object], engine: Engine, episode: Episode) -> str:
    """The fewest options under which `attempt` succeeds, as the end of a sentence.

    Args:
        attempt: splits the episode, or raises what a template's fault raises.
    """
    place = f"{engine.facts.model}.yaml"
    for options in _choices(episode):
        if (left := _try(attempt, engine, episode, options)) is not None:
            return f"set in {place}: {', '.join([*(option.line for option in options), *left])}"
    return (
        f"no role and no option mends that: give in {place} what the template asks for as template_arguments, "
        "or a chat_template that keeps every turn in its place"
    )


def _try(
    attempt: Callable[[Engine, Episode], object], engine: Engine, episode: Episode, options: Sequence[_Option]
) -> tuple[str, ...] | None:
    """What is left to set once `options` are, or None where they do not help."""
    for option in options:
        episode = option.recast(episode)
    try:
        attempt(cast("Engine", _Rearranged(engine, options)), episode)
    except TemplateError:
        return None
    except IsolationError as fault:
        # The day is printed once the turns are taken, so this is the last thing in the way.
        return (CLOCK,) if fault.check == "clock_in_template" else None
    return ()


def _choices(episode: Episode) -> Iterator[tuple[_Option, ...]]:
    """Every combination of what may help, the small ones first; none at all where only the clock is in the way."""
    options = [
        _Option("system: fold", arrange=folded),
        _Option(f"acknowledgement: {ACKNOWLEDGEMENT}", arrange=lambda turns: acknowledged(turns, ACKNOWLEDGEMENT)),
    ]
    if any(turn.role not in ("user", "assistant") for turn in episode.branch):
        vehicle = episode.axes.get("vehicle", "its vehicle")
        options.insert(0, _Option(f"roles: {{{vehicle}: user}}", recast=_as_user))
    for size in range(len(options) + 1):
        yield from combinations(options, size)


def _as_user(episode: Episode) -> Episode:
    turns = (Message("assistant" if turn.role == "assistant" else "user", turn.text) for turn in episode.branch)
    return replace(episode, branch=tuple(turns))
