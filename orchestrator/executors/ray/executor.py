"""Slots as actors: opened, fed, waited for and let go."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
from ray import exceptions

from orchestrator.executors import fit
from orchestrator.executors.base import Done, Event, Failed, FailureClass, Ready
from orchestrator.executors.fit import Resources
from orchestrator.executors.ray.actor import Actor
from orchestrator.executors.ray.cluster import Cluster
from orchestrator.executors.ray.errors import translate
from orchestrator.executors.share import Share, share
from orchestrator.executors.versions import versions
from workers.block import Block, Job
from workers.spec import Device
from workers.worker import Worker

PLACEMENT_S = 120.0
"""How long a slot may wait for the room it was promised."""


class _Call(NamedTuple):
    ref: Any
    block: Block | None


@dataclass(slots=True)
class _Slot:
    job: Job
    actor: Any
    opened_s: float
    node: str | None = None
    is_ready: bool = False
    calls: deque[_Call] = field(default_factory=deque)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(call.block for call in self.calls if call.block is not None)


class RayExecutor:
    """Slots on a Ray cluster.

    Args:
        address: None starts Ray on this machine; `auto` or host:port joins a cluster.
        slots: at most so many at a time; None as many as fit.
        cpus: CPUs that a local Ray counts on; None those of the machine.
        worker: the class that holds a model, for tests.
        placement_s: how long a slot may stay without a machine.

    Raises:
        ConfigError: no cluster answers at `address`, or it does not let this driver in.
    """

    def __init__(
        self,
        address: str | None = None,
        slots: int | None = None,
        cpus: int | None = None,
        *,
        worker: type[Worker] = Worker,
        placement_s: float = PLACEMENT_S,
    ) -> None:
        self._max_slots = slots
        self._worker = worker
        self._placement_s = placement_s
        self._versions = versions()
        self._numbers = itertools.count()
        self._slots: dict[int, _Slot] = {}
        self._cluster = Cluster(None if address == "local" else address, cpus)
        self._actor: Any = ray.remote(Actor)

    @property
    def description(self) -> str:
        """Where the slots are, and what there is."""
        return self._cluster.description

    def share(self, device: Device) -> Share:
        """By what the machines of the cluster have when they are empty."""
        nodes, _ = self._cluster.resources()
        return share(device, nodes.values(), self._max_slots)

    def room(self, job: Job) -> int:
        """Slots that fit beside those open, on what neither we nor others use."""
        nodes, available = self._cluster.resources()
        free = dict(nodes)
        pending = []
        for slot in self._slots.values():
            if slot.node is None:
                pending.append(_need(slot.job))
            elif slot.node in free:
                free[slot.node] = free[slot.node].minus(_need(slot.job))
        # Ray tells late what is taken and what is free again; the smaller of its count and ours is safe.
        ours = fit.total(fit.place(list(free.values()), pending), _need(job))
        for need in pending:
            available = available.minus(need)
        return self._capped(min(ours, fit.count(available, _need(job))), len(self._slots))

    def capacity(self, job: Job) -> int:
        """Slots that fit on the machines when they are empty."""
        nodes, _ = self._cluster.resources()
        return self._capped(fit.total(nodes.values(), _need(job)), 0)

    def open(self, job: Job) -> int:
        """Start an actor."""
        number, need = next(self._numbers), _need(job)
        actor = self._actor.options(
            num_cpus=need.cpus, num_gpus=need.gpus, max_concurrency=1, max_restarts=0, max_task_retries=0
        ).remote()
        slot = _Slot(job, actor, time.monotonic())
        slot.calls.append(_Call(actor.arrive.remote(self._versions), None))
        self._slots[number] = slot
        return number

    def submit(self, slot: int, block: Block) -> None:
        """Call the actor; it runs one block at a time, in order."""
        taken = self._slots[slot]
        taken.calls.append(_Call(taken.actor.run.remote(block), block))

    def wait(self, timeout_s: float) -> list[Event]:
        """Wait for the first call of each slot, then take everything that is there."""
        events: list[Event] = []
        deadline = time.monotonic() + timeout_s
        while not events and (left := deadline - time.monotonic()) > 0:
            fronts = {slot.calls[0].ref: number for number, slot in self._slots.items() if slot.calls}
            if not fronts:
                time.sleep(left)
                break
            ready, _ = ray.wait(list(fronts), num_returns=1, timeout=left)
            if ready:
                ready, _ = ray.wait(list(fronts), num_returns=len(fronts), timeout=0)
            events += [event for ref in ready if (event := self._take(fronts[ref])) is not None]
            events += self._unplaced()
        return events

    def close(self, slot: int) -> None:
        """Kill the actor; its resources come back as soon as Ray notices."""
        gone = self._slots.pop(slot)
        with contextlib.suppress(exceptions.RayError):
            ray.kill(gone.actor, no_restart=True)

    def shutdown(self) -> None:
        """Kill the actors and leave; a Ray that was started here ends."""
        for slot in list(self._slots):
            self.close(slot)
        self._cluster.leave()

    def _take(self, number: int) -> Event | None:
        slot = self._slots[number]
        try:
            result = ray.get(slot.calls[0].ref)
        except exceptions.RayError as error:
            return self._failed(number, *translate(error))
        slot.calls.popleft()
        if slot.node is None:
            slot.node = result
            slot.calls.appendleft(_Call(slot.actor.load.remote(self._worker, slot.job), None))
            return None
        if not slot.is_ready:
            slot.is_ready = True
            return Ready(number, *result)
        return Done(number, result)

    def _unplaced(self) -> list[Event]:
        late = time.monotonic() - self._placement_s
        waiting = [n for n, slot in self._slots.items() if slot.node is None and slot.opened_s < late]
        message = f"no machine took the worker within {self._placement_s:g} s"
        return [self._failed(number, FailureClass.UNPLACED, message) for number in waiting]

    def _failed(self, number: int, failure: FailureClass, message: str, traceback: str = "") -> Failed:
        blocks = self._slots[number].blocks
        self.close(number)
        return Failed(number, failure, message, blocks, traceback)

    def _capped(self, num_slots: int, num_open: int) -> int:
        return num_slots if self._max_slots is None else min(num_slots, self._max_slots - num_open)


def _need(job: Job) -> Resources:
    return Resources(job.model.device.num_cpus, job.model.device.gpus)
