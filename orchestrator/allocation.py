"""Which model gets the next slot, which slot the next block, and what a failure means. Pure: no clock, no process."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from orchestrator.backlog import B, Backlog
from orchestrator.executors.base import Done, Event, Failed, FailureClass, Ready
from workers.errors import StoreError

IN_FLIGHT = 2
"""Blocks on a slot: one running and one behind it, so that no slot waits for the driver."""
MAX_LOSSES = {FailureClass.LOST: 3, FailureClass.BUG: 2}
WORDS = {FailureClass.LOST: "worker lost 3 times", FailureClass.BUG: "failed twice"}
PATIENCE_S = 120.0
"""How long a model that ran here before waits while no machine of the cluster could hold it."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[B]):
    """What a run leaves behind.

    Attributes:
        missing: blocks that were not recorded by this run, each with the reason.
        reasons: model → why its trials are missing; where they differ, what ended the model or else the first.
        stopped: model → how it was found to compute wrongly, whether or not anything of it was left to run.
        num_loads: how often a model was loaded.
    """

    missing: list[tuple[B, str]]
    reasons: dict[str, str]
    stopped: dict[str, str]
    was_interrupted: bool
    num_loads: int


@dataclass(slots=True)
class _Slot(Generic[B]):
    model: str
    is_ready: bool = False
    blocks: deque[B] = field(default_factory=deque)


class Allocation(Generic[B]):
    """The state of a run, and every decision in it.

    A model keeps its slots until none of its blocks is queued. Slots are shared out by the work left per slot, so the
    longest work comes first and models end together; a block goes only to a slot that has loaded its model.

    Attributes:
        num_loads: how often a model was loaded.
        num_freed: how many slots are gone.
    """

    def __init__(self, blocks: Mapping[str, Sequence[B]]) -> None:
        self._backlogs = {model: Backlog(queue) for model, queue in blocks.items()}
        self._slots: dict[int, _Slot[B]] = {}
        self._hungry: dict[int, None] = {}  # in order, unlike a set
        self._is_interrupted = False
        self.num_loads = 0
        self.num_freed = 0

    @property
    def is_over(self) -> bool:
        """No slot is open, and none will be."""
        return not self._slots and not any(map(self._is_runnable, self._backlogs.values()))

    def wanted(self, full: Collection[str]) -> str | None:
        """The model that the next slot is for, leaving out those for which there is no room."""
        wanting = [m for m, b in self._backlogs.items() if m not in full and self._is_slot_useful(b)]
        return max(wanting, key=self._work_per_slot, default=None)

    def opened(self, slot: int, model: str) -> None:
        """A slot was opened for `wanted`."""
        self._slots[slot] = _Slot(model)
        self._backlogs[model].opened(slot)

    def starved(self, model: str, now_s: float, reason: str) -> None:
        """`wanted` fits nowhere, not even on empty machines."""
        self._backlogs[model].starved(now_s, PATIENCE_S, reason)

    def feed(self) -> list[tuple[int, B]]:
        """Blocks to submit: one to each idle slot first, then one behind the running one."""
        fed = []
        for depth in range(1, IN_FLIGHT + 1):
            for number in self._hungry:
                slot = self._slots[number]
                backlog = self._backlogs[slot.model]
                # Near the end nothing waits behind a running block while another slot could take it.
                least = 1 if depth == 1 else len(backlog.slots)
                is_over = self._is_interrupted or backlog.is_stopped
                if backlog.num_blocks >= least and len(slot.blocks) < depth and not is_over:
                    slot.blocks.append(backlog.take())
                    fed.append((number, slot.blocks[-1]))
        self._hungry.clear()
        return fed

    def idle(self) -> list[int]:
        """Slots to close: nothing runs on them and nothing will."""
        done = [b for b in self._backlogs.values() if self._is_interrupted or b.is_stopped or not b.num_blocks]
        closed = [number for backlog in done for number in backlog.slots if not self._slots[number].blocks]
        for number in closed:
            self._forget(number)
        return closed

    def on(self, event: Event) -> str | None:
        """Take an event in; the model it is about, or None for a slot that was closed meanwhile.

        Raises:
            StoreError: the records of a block cannot be written, so no other's can.
        """
        slot = self._slots.get(event.slot)
        if slot is None:
            return None
        backlog = self._backlogs[slot.model]
        match event:
            case Ready():
                slot.is_ready = True
                self._hungry[event.slot] = None
                self.num_loads += 1
                backlog.loaded(event.load_s)
            case Done():
                slot.blocks.popleft()
                self._hungry[event.slot] = None
                backlog.done(event.receipt.num_trials, event.receipt.wall_s)
                if event.receipt.stop:
                    backlog.stop(event.receipt.stop)
                if self._is_interrupted or backlog.is_stopped:
                    backlog.give_back(slot.blocks)
                    slot.blocks.clear()
            case Failed():
                self._fail(event, slot, backlog)
        return slot.model

    def interrupt(self) -> None:
        """Open and submit nothing more; let each slot commit the block that it is at."""
        self._is_interrupted = True

    def outcome(self) -> Outcome[B]:
        """What is left undone; ends it."""
        for backlog in self._backlogs.values():
            backlog.give_up(backlog.barred or "interrupted")
        missing = [lost for backlog in self._backlogs.values() for lost in backlog.missing]
        reasons = {m: b.barred or b.missing[0][1] for m, b in self._backlogs.items() if b.missing}
        stopped = {model: b.barred or "" for model, b in self._backlogs.items() if b.is_stopped}
        return Outcome(missing, reasons, stopped, self._is_interrupted, self.num_loads)

    def _fail(self, event: Failed, slot: _Slot[B], backlog: Backlog[B]) -> None:
        held, is_ready = list(slot.blocks), slot.is_ready
        self._forget(event.slot)
        if event.failure is FailureClass.STORE:
            raise StoreError(event.message)
        if event.failure is FailureClass.MODEL:
            backlog.bar(event.message)
        elif not is_ready and event.failure is not FailureClass.UNPLACED:
            backlog.load_failed(f"worker lost while loading: {event.message}")
        if held and is_ready and event.failure in MAX_LOSSES:
            # Only the first was being worked on; the others are not to blame.
            backlog.give_back(held[1:])
            backlog.lost(held[0], MAX_LOSSES[event.failure], f"{WORDS[event.failure]}: {event.message}")
        else:
            backlog.give_back(held)

    def _forget(self, number: int) -> None:
        self.num_freed += 1
        slot = self._slots.pop(number)
        self._hungry.pop(number, None)
        backlog = self._backlogs[slot.model]
        backlog.slots.discard(number)
        backlog.num_loading -= not slot.is_ready

    def _is_runnable(self, backlog: Backlog[B]) -> bool:
        return backlog.num_blocks > 0 and backlog.barred is None and not self._is_interrupted

    def _is_slot_useful(self, backlog: Backlog[B]) -> bool:
        if not self._is_runnable(backlog) or backlog.num_blocks <= backlog.num_loading:
            return False
        if not backlog.slots or backlog.trial_s is None or backlog.load_s is None:
            return True
        # One more slot ends sooner only where each has more left than a load takes.
        return backlog.num_trials * backlog.trial_s / len(backlog.slots) > backlog.load_s

    def _work_per_slot(self, model: str) -> float:
        backlog = self._backlogs[model]
        known = [b.trial_s for b in self._backlogs.values() if b.trial_s is not None]
        usual = sum(known) / len(known) if known else 1.0
        return backlog.num_trials * (backlog.trial_s or usual) / (len(backlog.slots) + 1)
