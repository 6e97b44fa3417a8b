"""Blocks → executor: does what the allocation decides, and tells who listens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from orchestrator.allocation import Allocation, Outcome
from orchestrator.backlog import B
from orchestrator.executors.base import Done, Event, Executor, Failed, Ready
from orchestrator.listener import Audience, Listener
from orchestrator.stop import Stop
from workers import faults
from workers.block import Job

__all__ = ["Outcome", "Stop", "run"]

TICK_S = 0.5
"""How soon a request to stop, or room on the cluster, is noticed."""


def run(
    blocks: Mapping[str, Sequence[B]],
    jobs: Mapping[str, Job],
    executor: Executor,
    listeners: Sequence[Listener],
    stop: Stop,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome[B]:
    """Run every block, or know why not.

    Args:
        blocks: model → its blocks, in the order in which they are taken; walked in order, never indexed.
        jobs: model → what its workers need.

    Raises:
        StoreError: the store cannot be written; nothing else was tried after that.
        KeyboardInterrupt: `stop` was asked twice.
    """
    allocation, audience, places = Allocation(blocks), Audience(listeners), _Places(executor, jobs, clock)
    try:
        while not allocation.is_over:
            stop.raise_if_at_once()
            if stop.requests:
                allocation.interrupt()
            _act(allocation, executor, places)
            for event in executor.wait(TICK_S) if not allocation.is_over else ():
                _tell(audience, event, allocation.on(event))
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
        self._full: set[str] = set()
        self._num_freed = 0
        self._looked_s = clock()

    def fill(self, allocation: Allocation[B]) -> None:
        now_s = self._clock()
        if allocation.num_freed != self._num_freed or now_s - self._looked_s >= TICK_S:
            self._full, self._num_freed, self._looked_s = set(), allocation.num_freed, now_s
        while (model := allocation.wanted(self._full)) is not None:
            job = self._jobs[model]
            if self._executor.room(job) > 0:
                allocation.opened(self._executor.open(job), model)
                continue
            self._full.add(model)
            if self._executor.capacity(job) == 0:
                allocation.starved(model, now_s, self._does_not_fit(job))

    def _does_not_fit(self, job: Job) -> str:
        device = job.model.device
        needs = f"needs {device.num_cpus:g} CPU and {device.gpus:g} GPU on one machine"
        return f"{needs}; this is {self._executor.description}"


def _act(allocation: Allocation[B], executor: Executor, places: _Places) -> None:
    for slot, block in allocation.feed():
        executor.submit(slot, block.made())
    for slot in allocation.idle():
        executor.close(slot)
    places.fill(allocation)


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
