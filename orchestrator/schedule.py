"""Blocks → executor: does what the allocation decides, and tells who listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.allocation import Allocation, Outcome, Want
from orchestrator.backlog import B
from orchestrator.executors.base import Done, Event, Executor, Failed, Ready
from orchestrator.listener import Audience, Listener
from orchestrator.stop import Stop
from workers import faults, quarantine
from workers.block import Block, Job, Receipt
from workers.quarantine import Grounds

__all__ = ["Outcome", "Stop", "run"]

TICK_S = 0.5
"""How soon a request to stop, or room on the cluster, is noticed."""

Quarantine = Callable[[Job, Block, Grounds], Receipt]
"""Records a trial that is given up."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What does not depend on the work.

    Attributes:
        hang_s: a worker that is at work and of which nothing is heard for so long is taken for hung; None: never.
        give_up: records a trial whose failures are enough.
    """

    hang_s: float | None = None
    give_up: Quarantine = quarantine.commit
    clock: Callable[[], float] = time.monotonic


TERMS = Terms()


def run(
    blocks: Mapping[str, Sequence[B]],
    jobs: Mapping[str, Job],
    executor: Executor,
    listeners: Sequence[Listener],
    stop: Stop,
    terms: Terms = TERMS,
) -> Outcome[B]:
    """Run every block, or know why not.

    Args:
        blocks: model → its blocks, in the order in which they are taken; walked in order, never indexed.
        jobs: model → what its workers need.

    Raises:
        StoreError: the store cannot be written; nothing else was tried after that.
        KeyboardInterrupt: `stop` was asked twice.
    """
    allocation, audience, places = Allocation(blocks), Audience(listeners), _Places(executor, jobs, terms.clock)
    watch = _Watch(terms.hang_s)
    try:
        while not allocation.is_over:
            stop.raise_if_at_once()
            if stop.requests:
                allocation.interrupt()
            _act(allocation, executor, places)
            for event in executor.wait(TICK_S) if not allocation.is_over else ():
                _tell(audience, event, allocation.on(event))
            for slot in watch.overdue(allocation.at_work(), terms.clock()):
                executor.close(slot)
                event = allocation.hung(slot, f"nothing was heard of the worker for {terms.hang_s:g} s")
                _tell(audience, event, allocation.on(event))
            _report(allocation, jobs, audience, terms.give_up)
    except BaseException as error:
        executor.shutdown()
        reason = str(error) or "stopped at once"
        audience.tell(lambda listener: listener.finished(dict.fromkeys(blocks, reason)))
        # What a signal raises inside Ray comes out of it as a SystemError.
        stop.raise_if_at_once()
        raise
    outcome = allocation.outcome()
    audience.tell(lambda listener: listener.finished(outcome.reasons))
    return outcome


class _Places:
    """Opens slots where there is room; asks again only when something was freed, or after a while."""

    def __init__(self, executor: Executor, jobs: Mapping[str, Job], clock: Callable[[], float]) -> None:
        self._executor, self._jobs, self._clock = executor, jobs, clock
        self._full: set[Want] = set()
        self._num_freed = 0
        self._looked_s = clock()

    def fill(self, allocation: Allocation[B]) -> None:
        now_s = self._clock()
        if allocation.num_freed != self._num_freed or now_s - self._looked_s >= TICK_S:
            self._full, self._num_freed, self._looked_s = set(), allocation.num_freed, now_s
        while (want := allocation.wanted(self._full)) is not None:
            job = self._jobs[want.model].sized(want.size)
            if self._executor.room(job) > 0:
                allocation.opened(self._executor.open(job), want)
                continue
            self._full.add(want)
            if self._executor.capacity(job) == 0:
                allocation.starved(want, now_s, self._does_not_fit(job))

    def _does_not_fit(self, job: Job) -> str:
        device = job.model.device
        needs = f"needs {device.num_cpus:g} CPU and {device.gpus:g} GPU on one machine"
        return f"{needs}; this is {self._executor.description}"


def _act(allocation: Allocation[B], executor: Executor, places: _Places) -> None:
    for slot, block, attempt in allocation.feed():
        executor.submit(slot, block.made(attempt))
    for slot in allocation.idle():
        executor.close(slot)
    places.fill(allocation)


class _Watch:
    """When something was last heard of each slot that is at work."""

    def __init__(self, hang_s: float | None) -> None:
        self._hang_s = hang_s
        self._heard: dict[int, tuple[int, float]] = {}

    def overdue(self, at_work: Mapping[int, int], now_s: float) -> Iterator[int]:
        """The slots of which nothing was heard for too long.

        Args:
            at_work: slot → how many steps it has made.
        """
        old, self._heard = self._heard, {}
        for slot, num_steps in at_work.items():
            last = old.get(slot)
            self._heard[slot] = last if last and last[0] == num_steps else (num_steps, now_s)
            if self._hang_s is not None and now_s - self._heard[slot][1] > self._hang_s:
                yield slot


def _report(allocation: Allocation[B], jobs: Mapping[str, Job], audience: Audience, give_up: Quarantine) -> None:
    """Record the trials that were given up, and say what was cordoned."""
    while allocation.cordoned:
        model, line = allocation.cordoned.popleft()
        audience.tell(lambda listener, model=model, line=line: listener.problem(model, line))  # type: ignore[misc]
    while allocation.quarantined:
        model, block, grounds = allocation.quarantined.popleft()
        receipt = give_up(jobs[model], block.made(grounds.attempts), grounds)
        audience.tell(lambda listener, receipt=receipt: listener.block_done(receipt))  # type: ignore[misc]


def _tell(audience: Audience, event: Event, model: str | None) -> None:
    if model is None:
        return
    match event:
        case Ready():
            audience.tell(lambda listener: listener.slot_ready(model, event.device, event.load_s))
        case Done():
            faults.point("receipt")
            audience.tell(lambda listener: listener.block_done(event.receipt))
        case Failed():
            audience.tell(lambda listener: listener.problem(model, event.message))
