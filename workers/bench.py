"""The states that the arms of one episode start from; shared inside a class, never across (DESIGN §4.6)."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from workers import surfaces
from workers.arms.base import class_of
from workers.errors import IsolationError
from workers.surfaces import Script, Step
from workers.surfaces.base import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.arms import Arm
    from workers.engine import Engine, Handle, Shelf
    from workers.episode import Episode
    from workers.split import Split
    from workers.surfaces import Aborted, Held, Restore, Session, Surface


@dataclass(slots=True)
class Cost:
    """Work done for one arm: tokens and milliseconds, apart for prefill and restore."""

    prefill_tokens: int = 0
    recomputed_tokens: int = 0
    prefill_ms: float | None = 0.0
    restore_ms: float | None = 0.0
    """None where the time is no one's: what should have been computed was taken from a shelf."""


class Shared(NamedTuple):
    """A state that several arms read, and the digest it had when it was made."""

    kind: Literal["session", "reference"]
    handle: Handle
    made: str


@contextmanager
def _timed(engine: Engine, cost: Cost, name: str) -> Iterator[None]:
    engine.wait()
    start = time.perf_counter()
    yield
    engine.wait()
    spent_ms = 1000 * (time.perf_counter() - start)
    setattr(cost, name, (getattr(cost, name) or 0.0) + spent_ms)


@dataclass
class Bench:
    """What an arm may ask for. Each call that computes is charged to the arm's `cost`.

    The *retained* class is one session as an application would hold it: the committed prefix is prefilled, a
    snapshot is taken, the branch is fed. Every arm that shares the session aborts a copy of it, on the surface that
    the episode names.

    What a class has on the shelf is taken from there, by that class alone.
    """

    engine: Engine
    split: Split
    surface: Surface = field(default_factory=lambda: surfaces.get("tensor_probe"))
    episode: Episode | None = None
    """Whose turns the surface's transcript holds; a bare surface needs none."""
    shelf: Shelf | None = None
    owner: str = ""
    """The class of the arm at work: whose prefills it may find on the shelf."""
    cost: Cost = field(default_factory=Cost)
    shared: list[Shared] = field(default_factory=list)
    _sessions: dict[Script, Session] = field(default_factory=dict)
    _aborted: Aborted | None = None
    _earlier: list[weakref.ref[Handle]] = field(default_factory=list)
    _roots: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Call the model as the surface does."""
        self.engine = self.engine.through(self.surface.path)

    def begin(self, arm: Arm) -> None:
        """Let an arm start, at its own cost and with what its own class may see."""
        self.owner, self.cost = class_of(arm), Cost()

    def _sharing(self, name: str) -> Engine:
        return self.engine if self.shelf is None else self.engine.sharing(self.shelf, name)

    @property
    def _retained(self) -> tuple[Handle, Handle]:
        held = self._noted(self._session().held)
        return held.committed, held.explored

    def _session(
        self, branch_ids: Sequence[int] | None = None, *, on_fork: bool = False, records_past: bool = False
    ) -> Session:
        turns, parts = self.episode, self.split
        script = Script(
            committed=Step(turns.committed if turns else (), parts.committed_ids),
            branch=Step(turns.branch if turns else (), parts.branch_ids if branch_ids is None else tuple(branch_ids)),
            finalize=Step(turns.finalize if turns else (), parts.delta_ids),
            on_fork=on_fork,
            records_past=records_past,
        )
        if script not in self._sessions:
            self._sessions[script] = self.surface.open(self._sharing("session"), script)
        return self._sessions[script]

    def _noted(self, held: Held) -> Held:
        """Watch what a session holds from the moment an arm looks at it."""
        known = [shared.handle for shared in self.shared]
        self._share("session", *(handle for handle in (held.committed, held.explored) if handle not in known))
        return held

    def _watched(self, session: Session) -> Session:
        """Note and count what the session holds, whatever a broken surface will hand to its abort handler."""
        self.cost.prefill_tokens += len(self._noted(session.held).explored.ledger)
        return session

    @cached_property
    def reference(self) -> Handle:
        """A pass over the committed prefix that no arm ever touches: Layer 1 is measured against it."""
        reference = self._sharing("reference").prefill(self.split.committed_ids)
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

    def restored(self, restore: Restore, session: Session | None = None) -> Handle:
        """The state with which the session goes on when its abort handler does `restore`."""
        session = self._watched(session or self._session())

        def handler(held: Held) -> Handle:
            with _timed(self.engine, self.cost, "restore_ms"):
                return restore(held)

        return self._abort(session, handler)

    def _abort(self, session: Session, handler: Restore) -> Handle:
        self._aborted = session.abort(handler)
        return self._aborted.state

    def decide(self, handle: Handle, read: Callable[[Handle], Read], *, is_one_pass: bool) -> Read:
        """Have the decision read from the state, once it holds the delta: fed as the surface does it.

        Raises:
            IsolationError: the surface decides on another state than the one that was measured, or not just once.
        """
        found: list[Read] = []

        def read_same(state: Handle) -> Read:
            if state is not handle:
                raise IsolationError("state_swapped", "the decision is read from another state than was prepared")
            found.append(read(state))
            return found[-1]

        aborted, self._aborted = self._aborted, None
        if aborted is not None and aborted.state is handle:
            aborted.decide(read_same)
            if len(found) != 1:
                raise IsolationError("not_decided_once", f"the decision is read {len(found)} times")
            return found[0]
        if not is_one_pass:
            self._sharing(self.owner).feed(handle, self.split.delta_ids)
        return read(handle)

    def explored(self, branch_ids: Sequence[int] | None = None) -> Handle:
        """A copy of the session after the branch, or other ids in its place, was fed, and before any was dropped."""
        session = self._watched(self._session(branch_ids))
        return self._abort(session, lambda held: self.engine.fork(held.explored))

    def snapshot(self) -> Handle:
        """A copy of the state as it was right after the committed prefill."""
        return self.restored(lambda held: self.engine.fork(held.committed))

    def scoped(self) -> Handle:
        """A copy of the session's own state, where the branch was explored on a fork that is now thrown away."""
        return self.restored(lambda held: self.engine.fork(held.committed), self._session(on_fork=True))

    def masked(self, start: int, stop: int) -> Handle:
        """The explored session, where nothing attends to positions `start` to `stop` any more."""
        return self.restored(lambda held: self.engine.mask(held.explored, start, stop))

    def cropped(self, length: int) -> Handle:
        """The explored session cut back to its first `length` tokens, by the cache library's own crop."""
        return self.restored(lambda held: self.engine.crop(held.explored, length))

    def recorded_and_cropped(self, length: int) -> Handle:
        """As `cropped`, of a session whose cache recorded its past from the start: no crop is refused."""
        session = self._session(records_past=True)
        return self.restored(lambda held: self.engine.crop(held.explored, length), session)

    def prefilled(self, ids: Sequence[int]) -> Handle:
        """A new cache from one pass over `ids`, sharing nothing."""
        self.cost.prefill_tokens += len(ids)
        with _timed(self.engine, self.cost, "prefill_ms"):
            state = self._sharing(self.owner).prefill(ids)
        if state.shared_by is not None:
            self.cost.prefill_ms = None
        return state

    def reprefilled(self, ids: Sequence[int]) -> Handle:
        """As `prefilled`, where the pass is the abort's restore: it counts as recomputed work."""
        made: list[Handle] = []

        def restore(_: Held) -> Handle:
            self.cost.recomputed_tokens += len(ids)
            with _timed(self.engine, self.cost, "restore_ms"):
                made.append(self.prefilled(ids))
            return made[-1]

        session = self._session()
        state = self._abort(session, restore)
        if self.cost.prefill_ms is None:
            self.cost.restore_ms = None
        if state not in made:
            # A session that nobody looked at yet: what it holds tells what the state descends from.
            self._noted(session.held)
        return state
