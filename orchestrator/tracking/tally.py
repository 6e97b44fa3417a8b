"""What a run has done so far, counted from receipts; the terminal and the tracker say the same numbers."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.listener import Start
    from workers.block import Receipt

PROBLEMS = ("error", "invalid", "unsupported")
"""Statuses of a trial that are no answer."""


class Tally:
    """Counts of one run, its rate, and how long the rest will take.

    Attributes:
        done: model → trials that this run has recorded.
        statuses, flips: status → trials, and arm → flips, of those.
        has_judged: whether any block had a reference trial to count flips by.
        slots: model → slots that have loaded it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.begun = self._last = clock()
        self.planned: dict[str, int] = {}
        self.to_run: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        self.done: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.flips: Counter[str] = Counter()
        self.has_judged = False
        self.slots: Counter[str] = Counter()
        self._wall_s: defaultdict[str, float] = defaultdict(float)
        self._seen: set[str] = set()
        self._loading_s = 0.0

    def start(self, start: Start) -> None:
        """Take over the plan."""
        self.begun = self._last = self.clock()
        self.planned, self.to_run = dict(start.planned), dict(start.to_run)
        # With retry=error a recorded trial runs again: what stays is what is not run.
        self._kept = {
            model: min(start.recorded.get(model, 0), num - self.to_run.get(model, 0))
            for model, num in self.planned.items()
        }

    def slot_ready(self, model: str, load_s: float) -> None:
        """Count a slot. Time in which nothing but loading happened is no part of the rate."""
        now = self.clock()
        if not self.num_slots:
            self._loading_s += max(0.0, now - self._last) if not self._seen else min(load_s, now - self._last)
            self._last = now
        self.slots[model] += 1

    def add(self, receipt: Receipt) -> bool:
        """Count a block; false where it was counted before (two workers can commit the same one)."""
        if receipt.block in self._seen:
            return False
        self._seen.add(receipt.block)
        self._last = self.clock()
        self.done[receipt.model] += receipt.num_trials
        self._wall_s[receipt.model] += receipt.wall_s
        self.statuses.update(receipt.statuses)
        self.flips.update(receipt.flips or {})
        self.has_judged |= receipt.flips is not None
        return True

    @property
    def models(self) -> list[str]:
        """Models of the plan, in its order."""
        return list(self.planned)

    def recorded(self, model: str) -> int:
        """The model's trials that are in the store now."""
        return min(self.planned.get(model, 0), self._kept.get(model, 0) + self.done[model])

    @property
    def num_done(self) -> int:
        """Trials recorded by this run."""
        return self.done.total()

    @property
    def num_to_run(self) -> int:
        """Trials this run set out to record."""
        return sum(self.to_run.values())

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.begun

    @property
    def per_minute(self) -> float | None:
        """Trials a minute, loading left out; nothing before the first block."""
        if not self._seen:
            return None
        working_s = self._last - self.begun - self._loading_s
        return self.num_done * 60 / working_s if working_s > 0 else None

    @property
    def eta_s(self) -> float | None:
        """Seconds until the last block; nothing before the first one.

        Work left, in slot-seconds, over the slots that live, and never less than a model needs on the slots
        it holds. Blocks in flight are work left, less the time since the last receipt, up to one block's.
        """
        if not self._seen:
            return None
        left = {model: self.left(model) * self._trial_s(model) for model in self.to_run}
        slots = {model: self.slots[model] for model, work in left.items() if work and self.slots[model]}
        alone = max((left[model] / num for model, num in slots.items()), default=0.0)
        together = sum(left.values()) / max(1, sum(slots.values()))
        in_flight = min(self.clock() - self._last, sum(self._wall_s.values()) / len(self._seen))
        return max(0.0, max(alone, together) - in_flight)

    @property
    def num_slots(self) -> int:
        """Slots that have loaded a model which is not done."""
        return sum(num for model, num in self.slots.items() if self.left(model))

    def is_at_work(self, model: str) -> bool:
        """Whether a slot holds the model and has work left."""
        return bool(self.slots[model] and self.left(model))

    def left(self, model: str) -> int:
        """The model's trials that this run has still to record."""
        return max(0, self.to_run.get(model, 0) - self.done[model])

    def _trial_s(self, model: str) -> float:
        """A model that has not answered yet is taken for the average of those that have."""
        if self.done[model]:
            return self._wall_s[model] / self.done[model]
        return sum(self._wall_s.values()) / max(1, self.num_done)
