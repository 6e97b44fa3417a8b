"""What a surface is: the place where a session lives and a branch is given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    from workers.engine import Engine, Handle
    from workers.engine.base import Path
    from workers.episode import Message

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Step:
    """Turns of a conversation, and the token ids that they add to its cache."""

    turns: tuple[Message, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """What happens in a session: it begins, takes a branch, gives it up, and decides.

    Attributes:
        on_fork: the branch is explored on a copy of the session's state, which itself stays as it was.
        records_past: the session's cache records its past from the start, as the library's own crop asks.
    """

    committed: Step
    branch: Step
    finalize: Step
    on_fork: bool = False
    records_past: bool = False


class Held(Protocol):
    """What a session's store holds when its branch is given up. Neither state may be changed."""

    @property
    def committed(self) -> Handle:
        """The state right after the committed prefix: a copy taken then, or the session's own where it forked."""

    @property
    def explored(self) -> Handle:
        """The state that took the branch."""


Restore = Callable[[Held], "Handle"]
"""The abort's treatment of the cache: what is held → the state the session goes on with, on storage of its own."""


class Aborted(Protocol):
    """A session whose branch is out of its transcript."""

    @property
    def state(self) -> Handle:
        """The state that the session's key now leads to."""

    def decide(self, read: Callable[[Handle], Read]) -> Read:
        """Feed the finalize step to that state, in the surface's own way, and have the decision read from it."""


class Session(Protocol):
    """A session that has taken its branch; it serves any number of aborts, each on a copy."""

    @property
    def held(self) -> Held:
        """What its store holds."""

    def abort(self, restore: Restore) -> Aborted:
        """Drop the branch from the transcript of a copy, and put in its cache's place what `restore` makes of it."""


class Surface(Protocol):
    """One place. A module of this package defines one and names its instance `SURFACE`.

    Attributes:
        name: as in configs and rows.
        version: raise it when the treatment of a session changes; only this surface's cells become new.
        path: how forward passes are called on it.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    path: ClassVar[Path]

    def open(self, engine: Engine, script: Script) -> Session:
        """Begin a session and take its branch.

        Raises:
            Unsupported: it cannot be done here, with the reason (a library is absent).
        """


def stamp(surface: Surface) -> str:
    """Name and version, as they enter an episode's identity."""
    return f"{surface.name}/{surface.version}"
