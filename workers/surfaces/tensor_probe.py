"""The tensor probe: no application, a cache in the hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from workers.surfaces.base import Read, Restore, Script

if TYPE_CHECKING:
    from workers.engine import Engine, Handle
    from workers.engine.base import Path


@dataclass
class ProbeSession:
    """States made when they are first asked for: an arm that starts over asks for none."""

    engine: Engine
    script: Script

    @property
    def held(self) -> ProbeSession:
        """Itself."""
        return self

    @property
    def committed(self) -> Handle:
        """The state right after the committed prefix."""
        return self._states[0]

    @property
    def explored(self) -> Handle:
        """The state that took the branch."""
        return self._states[1]

    @cached_property
    def _states(self) -> tuple[Handle, Handle]:
        session = self.engine.prefill(self.script.committed.ids, records_past=self.script.records_past)
        copy = self.engine.fork(session)
        committed, explored = (session, copy) if self.script.on_fork else (copy, session)
        self.engine.feed(explored, self.script.branch.ids)
        return committed, explored

    def abort(self, restore: Restore) -> Probe:
        """The restored state, and nothing around it."""
        return Probe(self.engine, restore(self), self.script.finalize.ids)


@dataclass(frozen=True)
class Probe:
    """A bare state, ready for the delta."""

    engine: Engine
    state: Handle
    delta_ids: tuple[int, ...]

    def decide(self, read: Callable[[Handle], Read]) -> Read:
        """Feed the delta and read."""
        self.engine.feed(self.state, self.delta_ids)
        return read(self.state)


class TensorProbe:
    """Caches are handled directly, with explicit positions."""

    name: ClassVar[str] = "tensor_probe"
    version: ClassVar[int] = 1
    path: ClassVar[Path] = "explicit"

    def open(self, engine: Engine, script: Script) -> ProbeSession:
        """A session whose states are made when they are asked for."""
        return ProbeSession(engine, script)


SURFACE = TensorProbe()
