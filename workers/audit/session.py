"""What a session has to be able to do, and what it was seen to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

from workers.errors import ConfigError

Ids = tuple[int, ...]


class Audited(Protocol):
    """One conversation of somebody's own code. Ids are those of the audited engine's tokenizer, rendered already.

    Subclass it, or write a class of the same methods.
    """

    def open(self, ids: list[int]) -> None:
        """Begin with the committed prefix."""

    def feed(self, ids: list[int]) -> None:
        """Go on with a branch, which `abort` may give up."""

    def abort(self) -> None:
        """Give the branch up: what comes next must not know of it."""

    def decide(self, ids: list[int], max_new_tokens: int) -> Sequence[int]:
        """Go on with the finalize turn and reply greedily: the reply's ids, with or without the end of sequence."""

    def tokens(self) -> Sequence[int] | None:
        """What its cache encodes, in its own words; None where it cannot tell."""
        return None

    def cache(self) -> object | None:
        """Its `past_key_values`, to be read and not touched; None where it has none to show."""
        return None


Factory = Callable[[], Audited]


@dataclass(frozen=True, slots=True)
class Look:
    """What a session tells and shows at one moment.

    Attributes:
        told: its tokens, in its own words.
        is_shown: it showed a cache that can be read.
        shown: the ids over which a separate pass builds that very cache; None where no known ids do.
    """

    told: Ids | None = None
    is_shown: bool = False
    shown: Ids | None = None

    @property
    def ids(self) -> Ids | None:
        """The best that is known: what the cache proves, or else what is told."""
        return self.shown if self.is_shown else self.told

    @property
    def is_known(self) -> bool:
        """Whether it says anything at all."""
        return self.is_shown or self.told is not None


def as_ids(found: Any, method: str) -> Ids:
    """What a session's method gave, as ids.

    Raises:
        ConfigError: it is no sequence of token ids.
    """
    try:
        return tuple(index(token) for token in found)
    except TypeError as fault:
        kind = type(found).__name__
        raise ConfigError(f"the session's {method}() gives a {kind}, not a flat sequence of token ids") from fault


Looking = Callable[[Audited, Ids], Look]
"""Look at a session, given the reply that it may hold by now."""


@dataclass(frozen=True, slots=True)
class Run:
    """A session that took a branch, gave it up and decided.

    Attributes:
        aborted: what it held when `abort` had returned.
        decided: what it held after its first decision.
        again: its second reply, to the same turn; None where it was not asked.
    """

    aborted: Look
    reply: Ids
    decided: Look
    again: Ids | None = None
