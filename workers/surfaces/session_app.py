"""The session app: an application's own sessions, found by name."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from workers.session import Branch, SessionApp
from workers.surfaces.base import Read, Restore, Script, Step

if TYPE_CHECKING:
    from workers.engine import Engine, Handle
    from workers.engine.base import Path

_NAME = "session"


class AppSession:
    """One exploration in one app; each abort is of a copy under a name of its own."""

    def __init__(self, engine: Engine, script: Script) -> None:
        self.app = SessionApp(engine)
        self._finalize = script.finalize
        self._numbers = count(1)
        self.app.begin(_NAME, script.committed, records_past=script.records_past)
        self.app.explore(_NAME, script.branch, on_fork=script.on_fork)

    @property
    def held(self) -> Branch:
        """The states of the open branch, which the copies share."""
        return self.app.held(_NAME)

    def abort(self, restore: Restore) -> AppAborted:
        """Copy the session and abort the copy."""
        name = f"{_NAME}-{next(self._numbers)}"
        self.app.fork(_NAME, name)
        aborted = AppAborted(self.app, name, self._finalize)
        self.app.abort(name, restore)
        return aborted


class AppAborted:
    """A copy whose branch is dropped; the app forgets it when nobody holds this any more."""

    def __init__(self, app: SessionApp, name: str, finalize: Step) -> None:
        self.app, self.name = app, name
        self._finalize = finalize
        weakref.finalize(self, app.close, name)

    @property
    def state(self) -> Handle:
        """The cache that the copy's name leads to."""
        return self.app.state(self.name)

    def decide(self, read: Callable[[Handle], Read]) -> Read:
        """Let the app decide."""
        return self.app.decide(self.name, self._finalize, read)


class AppSurface:
    """Sessions of `workers.session`, on explicit positions."""

    name: ClassVar[str] = "session_app"
    version: ClassVar[int] = 1
    path: ClassVar[Path] = "explicit"

    def open(self, engine: Engine, script: Script) -> AppSession:
        """A session that has begun and explored."""
        return AppSession(engine, script)


SURFACE = AppSurface()
