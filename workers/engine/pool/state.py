"""A state that was admitted to a pool: what it is, what is asked of it, and what was answered so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from workers.engine.alone import Known
from workers.engine.base import Answer, Ask, Decoded
from workers.engine.batch import KeysAndValues
from workers.engine.handle import CacheHandle, Span
from workers.errors import OutOfMemory


@dataclass(slots=True, eq=False)
class State:
    """One ticket of a batched pool.

    Attributes:
        held: ids that its keys and values encode.
        queued: ids that wait to be fed.
        texts: ids of what is scored as the continuation, none empty.
        logits: `[vocab]`, float32: the prediction after the last id; None until what waits is fed.
        left: numbers of the asks that no row has begun.
        again: why a reply was decoded once more.
    """

    held: tuple[int, ...]
    queued: tuple[int, ...]
    hidden: tuple[Span, ...]
    asks: tuple[Ask, ...]
    texts: tuple[tuple[int, ...], ...]
    batch: str
    logits: Tensor | None
    left: list[int] = field(default_factory=list)
    replies: dict[int, Decoded] = field(default_factory=dict)
    scores: tuple[float, ...] | None = None
    again: str = ""
    fault: FloatingPointError | OutOfMemory | None = None

    @classmethod
    def of(cls, handle: CacheHandle, asks: Sequence[Ask], texts: Sequence[tuple[int, ...]], batch: str) -> State:
        """What the handle is now; its keys and values are the batch's to copy."""
        ids, size = tuple(handle.ids), handle.num_held
        logits = None if handle.num_queued else handle.logits
        scores = None if texts else ()
        left = list(range(len(asks)))[::-1]
        return cls(ids[:size], ids[size:], handle.hidden, tuple(asks), tuple(texts), batch, logits, left, scores=scores)

    @property
    def num_tokens(self) -> int:
        """Tokens that it holds once what waits is fed."""
        return len(self.held) + len(self.queued)

    def handle(self, owner: str, cache: Any, layers: Sequence[KeysAndValues]) -> CacheHandle:
        """The state as it was admitted: an empty cache filled with its keys and values, and what waits."""
        for index, pair in enumerate(layers):
            cache.update(*pair, index)
        logits = None if self.queued else self.logits
        ids = [*self.held, *self.queued]
        return CacheHandle(owner, cache, ids, logits, num_queued=len(self.queued), hidden=self.hidden)

    def fail(self, fault: FloatingPointError | OutOfMemory) -> None:
        """Let the first fault stand in the answer's place; nothing more is begun."""
        self.fault = self.fault or fault
        self.left.clear()

    def answer(self) -> Answer:
        """As `Ticket.answer`."""
        if self.fault is not None:
            raise self.fault
        if self.scores is None or len(self.replies) < len(self.asks):
            raise ValueError("the pool has not come to it yet")
        replies = tuple(self.replies[at] for at in range(len(self.asks)))
        return Answer(replies, self.scores, self.batch, self.again)


Ticket = State | Known


def slots_needed(handle: CacheHandle, asks: Sequence[Ask], texts: Sequence[tuple[int, ...]]) -> int:
    """Tokens that a row holds at most; a reply's or a text's last id is never fed."""
    longest = max((*(ask.max_new_tokens for ask in asks), *map(len, texts)), default=1)
    return len(handle.ids) + longest - 1
