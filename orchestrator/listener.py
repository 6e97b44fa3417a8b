"""Who is told how a run goes: the terminal and the tracker. Neither can delay or fail a cell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from workers.block import Receipt

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """What a run is about to do.

    Attributes:
        planned, recorded: model → trials planned, and trials already in the store (any status).
        to_run: model → trials this run will record.
        blocked: model → why its trials cannot run here.
        slots: model → slots × threads, and where the numbers come from.
    """

    run_id: str
    grid: str
    store: str
    executor: str
    planned: dict[str, int]
    recorded: dict[str, int]
    to_run: dict[str, int]
    blocked: dict[str, str]
    slots: dict[str, str] = field(default_factory=dict)


class Listener(Protocol):
    """Told of everything, from the driver's one thread; must return at once."""

    def started(self, start: Start) -> None:
        """The plan is made and work begins."""

    def slot_ready(self, model: str, device: str, load_s: float) -> None:
        """A slot has loaded a model."""

    def block_done(self, receipt: Receipt) -> None:
        """A block is committed."""

    def problem(self, model: str, message: str) -> None:
        """Something failed and the run goes on; one line."""

    def finished(self, missing: dict[str, str]) -> None:
        """No work is left or can be done; `missing` is model → reason in one line."""


class Audience:
    """Tells several listeners. One that raises is silenced and warned about, and the others go on."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._listeners = list(listeners)

    def tell(self, what: Callable[[Listener], None]) -> None:
        """Call `what` with each listener."""
        for listener in list(self._listeners):
            try:
                what(listener)
            except Exception as error:
                self._listeners.remove(listener)
                logger.warning("%s is told no more: %r", type(listener).__name__, error)
