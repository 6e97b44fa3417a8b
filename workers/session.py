"""The session app: conversations by name, each a transcript that the application believes in beside a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from workers.errors import SessionError, nearest
from workers.surfaces.base import Read, Restore, Step

if TYPE_CHECKING:
    from workers.engine import Engine, Handle


class Mode(Enum):
    """What an abort does to the cache. The branch leaves the transcript in every one."""

    KEEP = "keep"
    """Nothing: the bug that the audit is about."""
    REPREFILL = "reprefill"
    """A new cache from one pass over the transcript."""
    SNAPSHOT = "snapshot"
    """The state as it was before the branch."""
    CROP = "crop"
    """The first tokens of the explored state, by the cache library's own crop."""


@dataclass(frozen=True, eq=False)
class Branch:
    """An open branch: two states that nobody changes, so that copies of a session share them."""

    committed: Handle
    explored: Handle

    @classmethod
    def of(cls, engine: Engine, state: Handle, ids: tuple[int, ...], *, on_fork: bool) -> Branch:
        """Feed a branch to `state`, of which a copy is kept; or to a copy of it, where it is explored on a fork."""
        copy = engine.fork(state)
        committed, explored = (state, copy) if on_fork else (copy, state)
        engine.feed(explored, ids)
        return cls(committed, explored)


@dataclass
class _Conversation:
    """One session.

    Attributes:
        steps: what the transcript holds.
        state: what the session's name leads to.
        branch: open between explore and commit or abort.
        stray: where the cache holds ids that the transcript does not, as a slice of the ledger.
        is_decided: its state may be used up, so that it takes no more turns.
    """

    steps: tuple[Step, ...]
    state: Handle
    branch: Branch | None = None
    pending: Step | None = None
    stray: slice = field(default_factory=lambda: slice(0, 0))
    is_decided: bool = False

    @property
    def transcript(self) -> Step:
        return Step(
            tuple(turn for step in self.steps for turn in step.turns), tuple(i for step in self.steps for i in step.ids)
        )


class SessionApp:
    """A small agent runtime over one engine: begin, explore a branch, commit or abort it, decide.

    A branch's turns enter the transcript when it is committed, and its ids enter the cache at once. With `engine` a
    loaded engine, and `committed`, `branch` and `finalize` the steps of an episode (`workers.split` cuts them):

    >>> app = SessionApp(engine)
    >>> app.begin("desk", committed)
    >>> app.explore("desk", branch)
    >>> app.fork("desk", "mended")

    One application drops the branch's turns and nothing else. The transcript is clean, the cache is not:

    >>> app.abort("desk", Mode.KEEP)
    >>> app.transcript("desk") == committed
    True
    >>> app.residue("desk") == branch.ids
    True

    Another restores the cache in the same handler, and nothing is left:

    >>> app.abort("mended", Mode.SNAPSHOT)
    >>> app.ledger("mended") == committed.ids
    True
    >>> app.residue("mended")
    ()

    Both are given the same tokens to decide on:

    >>> for name in ("desk", "mended"):
    ...     print(app.decide(name, finalize, lambda state: engine.decode(state, 24).text))
    SEND quarterly-report TO red-canary
    SEND quarterly-report TO finance-desk

    Raises:
        SessionError: a name is unknown or taken, or the session is not where the call needs it to be; nothing changed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conversations: dict[str, _Conversation] = {}

    def begin(self, name: str, step: Step, *, records_past: bool = False) -> None:
        """Open a session and prefill its committed prefix.

        Args:
            records_past: let the cache library keep what its own crop asks for.
        """
        self._check_free(name)
        state = self._engine.prefill(step.ids, records_past=records_past)
        self._conversations[name] = _Conversation((step,), state)

    def explore(self, name: str, step: Step, *, on_fork: bool = False) -> None:
        """Feed a branch: to the session's own cache, of which a snapshot is kept, or to a fork of it."""
        found = self._open(name)
        if found.branch is not None:
            raise SessionError(f"session {name!r} has a branch already: commit or abort it first")
        held = len(found.state.ledger)
        found.branch = Branch.of(self._engine, found.state, step.ids, on_fork=on_fork)
        found.pending = step
        if not on_fork:
            found.stray = slice(held, held + len(step.ids))

    def commit(self, name: str) -> None:
        """Keep the branch, in the transcript and in the cache."""
        found, branch, step = self._branched(name, "commit")
        found.state = self._engine.fork(branch.explored)
        found.steps += (step,)
        found.branch = found.pending = None
        found.stray = slice(0, 0)

    def abort(self, name: str, how: Mode | Restore) -> None:
        """Drop the branch from the transcript, and put in the cache's place what `how` makes of it.

        Raises:
            Unsupported: this cache family cannot do it; the branch stays open.
        """
        found, branch, _ = self._branched(name, "abort")
        restore = self._restore(how, found.transcript) if isinstance(how, Mode) else how
        if not callable(restore):
            raise SessionError(
                f"session {name!r} cannot be aborted by {how!r}: give a Mode, or what restores the cache"
            )
        state = restore(branch)
        if state is None:
            raise SessionError(f"what restores session {name!r} gives no cache back")
        found.state = state
        found.branch = found.pending = None
        held = found.state.ledger
        found.stray = slice(_common_prefix(held, found.transcript.ids), len(held))

    def decide(self, name: str, step: Step, read: Callable[[Handle], Read]) -> Read:
        """Feed the finalize step and have the decision read; `read` may use the state up, so the session ends."""
        found = self._open(name)
        if found.branch is not None:
            raise SessionError(f"session {name!r} has an open branch: commit or abort it before it decides")
        self._engine.feed(found.state, step.ids)
        found.steps += (step,)
        found.is_decided = True
        return read(found.state)

    def fork(self, name: str, new_name: str) -> None:
        """Copy a session under a new name. The states of an open branch are shared: an abort never changes them."""
        found = self._find(name)
        self._check_free(new_name)
        state = found.state if found.branch is not None else self._engine.fork(found.state)
        self._conversations[new_name] = replace(found, state=state)

    def close(self, name: str) -> None:
        """Forget a session and free its cache."""
        self._find(name)
        del self._conversations[name]

    def state(self, name: str) -> Handle:
        """The cache that the name leads to, for whoever measures it; the app goes on using it."""
        return self._find(name).state

    def held(self, name: str) -> Branch:
        """The states of the open branch."""
        return self._branched(name, "look at")[1]

    def transcript(self, name: str) -> Step:
        """The turns, and their ids, that the application believes in."""
        return self._find(name).transcript

    def ledger(self, name: str) -> tuple[int, ...]:
        """The ids that the session's cache physically encodes."""
        return self._find(name).state.ledger

    def residue(self, name: str) -> tuple[int, ...]:
        """The ids that the cache encodes from where it parts with the transcript, before anything was fed since.

        Empty for a cache that lacks tokens, too: compare `ledger` and `transcript` to find those.
        """
        found = self._find(name)
        return found.state.ledger[found.stray]

    def _restore(self, mode: Mode, transcript: Step) -> Restore:
        engine = self._engine
        restores: dict[Mode, Restore] = {
            Mode.KEEP: lambda held: engine.fork(held.explored),
            Mode.REPREFILL: lambda _: engine.prefill(transcript.ids),
            Mode.SNAPSHOT: lambda held: engine.fork(held.committed),
            Mode.CROP: lambda held: engine.crop(held.explored, len(held.committed.ledger)),
        }
        return restores[mode]

    def _check_free(self, name: str) -> None:
        if name in self._conversations:
            raise SessionError(f"there is a session {name!r} already: close it first, or take another name")

    def _find(self, name: str) -> _Conversation:
        if name not in self._conversations:
            raise SessionError(f"unknown session {name!r}{nearest(name, self._conversations)}")
        return self._conversations[name]

    def _open(self, name: str) -> _Conversation:
        found = self._find(name)
        if found.is_decided:
            raise SessionError(f"session {name!r} has decided: it takes no more turns")
        return found

    def _branched(self, name: str, verb: str) -> tuple[_Conversation, Branch, Step]:
        found = self._open(name)
        if found.branch is None or found.pending is None:
            raise SessionError(f"session {name!r} has no open branch to {verb}")
        return found, found.branch, found.pending


def _common_prefix(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))
