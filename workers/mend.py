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
"""Offered; what stands in the YAML is the user's choice."""


@dataclass(frozen=True)
class _Option:
    """One line of YAML, and what it does."""

    line: str
    arrange: Callable[[Sequence[Message]], tuple[Message, ...]] = tuple
    is_clock: bool = False
    recast: Callable[[Episode], Episode] = lambda episode: episode


@dataclass(frozen=True)
class _Rearranged:
    """An engine as it would render under more options."""

    engine: Engine
    options: Sequence[_Option]

    def render(self, messages: Sequence[Message]) -> Render:
        for option in self.options:
            messages = option.arrange(messages)
        render = self.engine.render(messages)
        return replace(render, is_dated=render.is_dated and not any(option.is_clock for option in self.options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def mend(attempt: Callable[[Engine, Episode], object], engine: Engine, episode: Episode) -> str:
    """The fewest options under which `attempt` succeeds, as the end of a sentence.

    Args:
        attempt: splits the episode, or raises what a template's fault raises.
    """
    place = f"{engine.facts.model}.yaml"
    for options in _choices(episode):
        changed = episode
        for option in options:
            changed = option.recast(changed)
        try:
            attempt(cast("Engine", _Rearranged(engine, options)), changed)
        except (IsolationError, TemplateError):
            continue
        return f"set in {place}: {', '.join(option.line for option in options)}"
    return (
        f"no role and no option mends that: give in {place} what the template asks for as template_arguments, "
        "or a chat_template that keeps every turn in its place"
    )


def _choices(episode: Episode) -> Iterator[tuple[_Option, ...]]:
    """Every combination of what may help, the small ones first."""
    options = [
        _Option("system: fold", arrange=folded),
        _Option(f"acknowledgement: {ACKNOWLEDGEMENT}", arrange=lambda turns: acknowledged(turns, ACKNOWLEDGEMENT)),
        # The day that a render is given where the YAML names none.
        _Option("clock: 2025-01-01", is_clock=True),
    ]
    if any(turn.role not in ("user", "assistant") for turn in episode.branch):
        vehicle = episode.axes.get("vehicle", "its vehicle")
        options.insert(0, _Option(f"roles: {{{vehicle}: user}}", recast=_as_user))
    for size in range(1, len(options) + 1):
        yield from combinations(options, size)


def _as_user(episode: Episode) -> Episode:
    turns = (Message("assistant" if turn.role == "assistant" else "user", turn.text) for turn in episode.branch)
    return replace(episode, branch=tuple(turns))
