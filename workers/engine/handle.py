"""One KV cache, the ledger of the ids it encodes, and the logits after the last of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from workers.errors import IsolationError

Span = tuple[int, int]
"""Positions from, and up to but without."""


class Lender(Protocol):
    """One class's part of a shelf."""

    def lend(self, handle: CacheHandle) -> bool:
        """Copy what the handle waits for into its cache, if the state it holds was prefilled so; whether it was."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class CacheHandle:
    """A session's state on one engine.

    Attributes:
        owner: fingerprint of the engine that opened it; a cache of another model of the same shape is accepted by
            transformers without a word.
        cache: a transformers `Cache`.
        ids: the ledger, growing in place.
        logits: `[vocab]`, float32: the prediction after the last id.
        num_fed: ids in each forward pass so far, growing in place.
        root: the prefill that this state descends from.
        records_past: the cache keeps its past so that the library's `crop` finds it, and is taken at its word.
        num_queued: last ids of the ledger that wait to be fed: for a `generate` call, a pool, or whoever looks.
        lender: who may hold the state with what waits; else it is computed.
        hidden: spans of positions that get no attention any more.
        shared_by: the class on whose part of a shelf what it holds was found; None where all of it was computed for it.
    """

    owner: str
    cache: Any
    ids: list[int] = field(default_factory=list)
    logits: Tensor | None = None
    num_fed: list[int] = field(default_factory=list)
    root: object = field(default_factory=object)
    records_past: bool = False
    num_queued: int = 0
    lender: Lender | None = None
    hidden: tuple[Span, ...] = ()
    shared_by: str | None = None

    @property
    def ledger(self) -> tuple[int, ...]:
        """The ids fed so far, in order."""
        return tuple(self.ids)

    @property
    def passes(self) -> tuple[int, ...]:
        """Ids in each forward pass that made this state; those that wait are one to come."""
        return (*self.num_fed, self.num_queued) if self.num_queued else tuple(self.num_fed)

    @property
    def num_held(self) -> int:
        """Tokens that the cache encodes."""
        return len(self.ids) - self.num_queued


def owned(handle: object, owner: str) -> CacheHandle:
    """The handle itself, once it is known to be this engine's.

    Raises:
        IsolationError: another engine opened it.
    """
    if not isinstance(handle, CacheHandle) or handle.owner != owner:
        raise IsolationError("foreign_handle", "the handle was opened by another engine")
    return handle
