"""The states that the arms of one episode start from; shared inside a class, never across (DESIGN §4.6)."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.engine import Engine, Handle
    from workers.split import Split


@dataclass(slots=True)
class Cost:
    """Work done for one arm: tokens and milliseconds, apart for prefill and restore."""

    prefill_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_ms: float = 0.0
    restore_ms: float = 0.0


class Shared(NamedTuple):
    """A state that several arms read, and the digest it had when it was made."""

    kind: Literal["session", "reference"]
    handle: Handle
    made: str


@contextmanager
def _timed(cost: Cost, name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    setattr(cost, name, getattr(cost, name) + 1000 * (time.perf_counter() - start))


@dataclass
class Bench:
    """What an arm may ask for. Each call that computes is charged to the arm's `cost`.

    The *retained* class is one session as an application would hold it: the committed prefix is prefilled, a
    snapshot is taken, the branch is fed. `stale`, `truncate` and `checkpoint` start from it, on copies.
    """

    engine: Engine
    split: Split
    cost: Cost = field(default_factory=Cost)
    shared: list[Shared] = field(default_factory=list)
    _earlier: list[weakref.ref[Handle]] = field(default_factory=list)
    _roots: list[object] = field(default_factory=list)

    @cached_property
    def _retained(self) -> tuple[Handle, Handle]:
        session = self.engine.prefill(self.split.committed_ids)
        snapshot = self.engine.fork(session)
        self.engine.feed(session, self.split.branch_ids)
        self._share("session", snapshot, session)
        return snapshot, session

    @cached_property
    def _recording(self) -> Handle:
        session = self.engine.prefill(self.split.committed_ids, records_past=True)
        self.engine.feed(session, self.split.branch_ids)
        self._share("session", session)
        return session

    @cached_property
    def reference(self) -> Handle:
        """A pass over the committed prefix that no arm ever touches: Layer 1 is measured against it."""
        reference = self.engine.prefill(self.split.committed_ids)
        self._share("reference", reference)
        return reference

    def is_intact(self) -> bool:
        """Whether every shared state still has the bytes it was made with."""
        return all(self.engine.digest(shared.handle) == shared.made for shared in self.shared)

    def take(self, handle: Handle) -> None:
        """Note an arm's state, so that no later arm works on it; it is not kept alive for that."""
        self._earlier.append(weakref.ref(handle))
        self._roots.append(handle.root)

    def earlier(self) -> list[Handle]:
        """Those states of earlier arms that somebody still holds."""
        return [handle for handle in (reference() for reference in self._earlier) if handle is not None]

    def is_taken(self, root: object) -> bool:
        """Whether an earlier arm's state came from that prefill."""
        return any(root is taken for taken in self._roots)

    def _share(self, kind: Literal["session", "reference"], *handles: Handle) -> None:
        self.shared.extend(Shared(kind, handle, self.engine.digest(handle)) for handle in handles)

    def explored(self) -> Handle:
        """A copy of the session after the branch was fed, before anything was dropped."""
        session = self._retained[1]
        self.cost.prefill_tokens += len(session.ledger)
        return self.engine.fork(session)

    def snapshot(self) -> Handle:
        """A copy of the state as it was right after the committed prefill."""
        saved = self._retained[0]
        self.cost.prefill_tokens += len(self._retained[1].ledger)
        with _timed(self.cost, "restore_ms"):
            return self.engine.fork(saved)

    def cropped(self, length: int) -> Handle:
        """The explored session cut back to its first `length` tokens, by the cache library's own crop."""
        return self._crop(self._retained[1], length)

    def recorded_and_cropped(self, length: int) -> Handle:
        """As `cropped`, of a session whose cache recorded its past from the start: no crop is refused."""
        return self._crop(self._recording, length)

    def _crop(self, session: Handle, length: int) -> Handle:
        self.cost.prefill_tokens += len(session.ledger)
        with _timed(self.cost, "restore_ms"):
            return self.engine.crop(session, length)

    def prefilled(self, ids: Sequence[int]) -> Handle:
        """A new cache from one pass over `ids`, sharing nothing."""
        self.cost.prefill_tokens += len(ids)
        with _timed(self.cost, "prefill_ms"):
            return self.engine.prefill(ids)

    def reprefilled(self, ids: Sequence[int]) -> Handle:
        """As `prefilled`, where the pass is the restore itself: it counts as recomputed work."""
        self.cost.recomputed_tokens += len(ids)
        with _timed(self.cost, "restore_ms"):
            return self.prefilled(ids)
