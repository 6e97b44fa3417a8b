"""Seconds that a worker spends in its engine for what its rows say: passes, copies of states, replies and scores."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from workers.sentinel import Sentinel


@dataclass
class EngineTime:
    """A stopwatch that runs inside the outermost of the calls that it counts.

    Attributes:
        total_s: so far.
    """

    total_s: float = 0.0
    _depth: int = 0
    _is_paused: bool = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Everything measured goes into the total: the engine's calls, but for those of the sentinel."""
        from workers.engine.causal import CausalEngine
        from workers.engine.pool.batched import Batched
        from workers.engine.shelf.prefills import Prefills

        # `_settle` is where ids that waited are encoded, when a digest or a distance looks at the state.
        counted = {
            CausalEngine: ("prefill", "feed", "fork", "crop", "mask", "decode", "score", "_settle"),
            Batched: ("admit", "drain"),
            Prefills: ("fill",),
        }
        with contextlib.ExitStack() as stack:
            for owner, names in counted.items():
                for name in names:
                    stack.enter_context(mock.patch.object(owner, name, self._counting(getattr(owner, name))))
            stack.enter_context(mock.patch.object(Sentinel, "alarm", self._pausing(Sentinel.alarm)))
            yield

    def _counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                self._depth -= 1
                if not self._depth and not self._is_paused:
                    self.total_s += time.perf_counter() - start

        return counted

    def _pausing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def paused(*given: Any, **named: Any) -> Any:
            self._is_paused = True
            try:
                return call(*given, **named)
            finally:
                self._is_paused = False

        return paused
