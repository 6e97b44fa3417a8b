"""Which model gets the next slot, which slot the next block, and what a failure means. Pure: no clock, no process."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

from orchestrator.backlog import B, Backlog
from orchestrator.executors.base import Done, Event, Failed, FailureClass, Ready
from orchestrator.history import BUDGETS, Fall, History
from orchestrator.places import Places
from workers.errors import StoreError
from workers.quarantine import Grounds

IN_FLIGHT = 2
"""Blocks on a slot: one running and one behind it, so that no slot waits for the driver."""
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


class Want(NamedTuple):
    """A slot to open: for which model, and how many times as large as it asks."""

    model: str
    size: int


@dataclass(slots=True)
class _Slot(Generic[B]):
    model: str
    size: int
    place: str | None = None
    num_steps: int = 0
    blocks: deque[B] = field(default_factory=deque)

    @property
    def is_ready(self) -> bool:
        return self.place is not None


class Allocation(Generic[B]):
    """The state of a run, and every decision in it.

    A model keeps its slots until none of its blocks is queued. Slots are shared out by the work left per slot, so the
    longest work comes first and models end together; a block goes only to a slot that has loaded its model, and one
    that failed somewhere goes elsewhere where there is another place.

    Attributes:
        num_loads: how often a model was loaded.
        num_freed: how many slots are gone.
        quarantined: trials given up since somebody last took them from here.
        cordoned: (model, one line) of each place that was cordoned since then.
    """

    def __init__(self, blocks: Mapping[str, Sequence[B]]) -> None:
        self._backlogs = {model: Backlog(queue) for model, queue in blocks.items()}
        self._slots: dict[int, _Slot[B]] = {}
        self._hungry: dict[int, None] = {}  # in order, unlike a set
        self._places = Places()
        self._is_interrupted = False
        self.num_loads = 0
        self.num_freed = 0
        self.quarantined: deque[tuple[str, B, Grounds]] = deque()
        self.cordoned: deque[tuple[str, str]] = deque()

    @property
    def is_over(self) -> bool:
        """No slot is open, and none will be."""
        return not self._slots and not any(map(self._is_runnable, self._backlogs.values()))

    def wanted(self, full: Collection[Want]) -> Want | None:
        """The next slot to open, leaving out those for which there is no room."""
        wants = {Want(m, self._size(b)): b for m, b in self._backlogs.items() if self._is_runnable(b)}
        useful = [want for want, backlog in wants.items() if want not in full and self._is_slot_useful(want, backlog)]
        return max(useful, key=lambda want: self._work_per_slot(want.model), default=None)

    def opened(self, slot: int, want: Want) -> None:
        """A slot was opened as `wanted`."""
        self._slots[slot] = _Slot(want.model, want.size)
        self._backlogs[want.model].opened(slot)

    def starved(self, want: Want, now_s: float, reason: str) -> None:
        """`wanted` fits nowhere, not even on empty machines."""
        backlog = self._backlogs[want.model]
        if want.size > 1:
            backlog.limit_size(want.size // 2)
        else:
            backlog.starved(now_s, PATIENCE_S, reason)

    def feed(self) -> list[tuple[int, B, int]]:
        """Blocks to submit, and the how-manieth attempt each is: one to each idle slot first, then one behind it."""
        fed = []
        for depth in range(1, IN_FLIGHT + 1):
            for number in self._hungry:
                slot = self._slots[number]
                backlog = self._backlogs[slot.model]
                # Near the end nothing waits behind a running block while another slot could take it.
                least = 1 if depth == 1 else len(backlog.slots)
                is_over = self._is_interrupted or backlog.is_stopped
                if backlog.num_blocks < least or len(slot.blocks) >= depth or is_over:
                    continue
                if (block := self._taken(slot, backlog)) is not None:
                    slot.blocks.append(block)
                    fed.append((number, block, 1 + backlog.history(block).attempts))
        idle = (number for number in self._hungry if not self._slots[number].blocks)
        self._hungry = {number: None for number in idle if self._backlogs[self._slots[number].model].num_blocks}
        return fed

    def idle(self) -> list[int]:
        """Slots to close: nothing runs on them and nothing will."""
        closed = [
            number
            for backlog in self._backlogs.values()
            for number in backlog.slots
            if not (slot := self._slots[number]).blocks and self._is_done_with(slot, backlog)
        ]
        for number in closed:
            self._forget(number)
        return closed

    def at_work(self) -> dict[int, int]:
        """Slots that load a model or hold a block → how many steps each has made."""
        return {n: slot.num_steps for n, slot in self._slots.items() if slot.blocks or not slot.is_ready}

    def hung(self, number: int, message: str) -> Failed:
        """What is to be said of a slot that was closed because nothing was heard of it."""
        return Failed(number, FailureClass.HUNG, message, ())

    def on(self, event: Event) -> str | None:
        """Take an event in; the model it is about, or None for a slot that was closed meanwhile.

        Raises:
            StoreError: the records of a block cannot be written, so no other's can.
        """
        slot = self._slots.get(event.slot)
        if slot is None:
            return None
        slot.num_steps += 1
        backlog = self._backlogs[slot.model]
        match event:
            case Ready():
                slot.place = event.place
                self._hungry[event.slot] = None
                self.num_loads += 1
                backlog.loaded(event.load_s)
            case Done():
                self._done(event, slot, backlog)
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

    def _done(self, event: Done, slot: _Slot[B], backlog: Backlog[B]) -> None:
        block = slot.blocks.popleft()
        self._hungry[event.slot] = None
        history = backlog.done(block, event.receipt.num_trials, event.receipt.wall_s)
        place = self._places.done(slot.place or "", history)
        if place is not None:
            line = f"{place} is cordoned, it gets no block while there is another place: {self._places.cordoned[place]}"
            self.cordoned.append((slot.model, line))
        if event.receipt.stop:
            backlog.stop(event.receipt.stop)
        if self._is_interrupted or backlog.is_stopped:
            backlog.give_back(slot.blocks)
            slot.blocks.clear()

    def _fail(self, event: Failed, slot: _Slot[B], backlog: Backlog[B]) -> None:
        held = list(slot.blocks)
        self._forget(event.slot)
        if event.failure is FailureClass.STORE:
            raise StoreError(event.message)
        if event.failure is FailureClass.MODEL:
            backlog.bar(event.message)
        elif not slot.is_ready and event.failure is not FailureClass.UNPLACED:
            backlog.load_failed(f"worker lost while loading: {event.message}")
        if held and slot.is_ready and event.failure in BUDGETS:
            # Only the first was being worked on; the others are not to blame.
            backlog.give_back(held[1:])
            self._blame(event, slot, backlog, held[0])
        else:
            backlog.give_back(held)

    def _blame(self, event: Failed, slot: _Slot[B], backlog: Backlog[B], block: B) -> None:
        fall = Fall(event.failure, slot.place or "", self._places.numbered())
        if (ended := backlog.lost(block, fall, event.message)) is not None:
            grounds = Grounds(event.failure.value, ended.attempts, event.message, event.traceback)
            self.quarantined.append((slot.model, block, grounds))

    def _taken(self, slot: _Slot[B], backlog: Backlog[B]) -> B | None:
        """The next block for the slot; None where others are better placed for all that is left."""
        cordoned = self._places.cordoned
        elsewhere = [
            other.size
            for number in backlog.slots
            if (other := self._slots[number]).place != slot.place and other.place not in cordoned
        ]

        def suits(history: History) -> bool:
            is_doubtful = slot.place in cordoned or slot.place == history.place
            return history.needs <= slot.size and not (is_doubtful and max(elsewhere, default=0) >= history.needs)

        return backlog.take(suits)

    def _is_done_with(self, slot: _Slot[B], backlog: Backlog[B]) -> bool:
        if self._is_interrupted or backlog.is_stopped or not backlog.num_blocks:
            return True
        return slot.is_ready and not backlog.has_for(slot.size)

    def _forget(self, number: int) -> None:
        self.num_freed += 1
        slot = self._slots.pop(number)
        self._hungry.pop(number, None)
        backlog = self._backlogs[slot.model]
        backlog.slots.discard(number)
        backlog.num_loading -= not slot.is_ready

    def _size(self, backlog: Backlog[B]) -> int:
        return backlog.size_wanted(self._slots[number].size for number in backlog.slots)

    def _is_runnable(self, backlog: Backlog[B]) -> bool:
        return backlog.num_blocks > 0 and backlog.barred is None and not self._is_interrupted

    def _is_slot_useful(self, want: Want, backlog: Backlog[B]) -> bool:
        if want.size > 1:
            return True
        if backlog.num_blocks <= backlog.num_loading or not backlog.has_for(want.size):
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
