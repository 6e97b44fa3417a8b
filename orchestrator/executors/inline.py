"""This process: one slot, one block at a time, no thread and no copy, so a debugger and a traceback work."""

from __future__ import annotations

import time
from collections import deque

from orchestrator.executors.base import Done, Event, Failed, FailureClass, Ready
from orchestrator.executors.fit import Resources
from orchestrator.executors.share import Share, num_cores, share
from workers.block import Block, Job
from workers.errors import ModelError, OutOfMemory, StoreError
from workers.spec import Device
from workers.worker import Worker


class InlineExecutor:
    """Runs in `wait`, in the caller's thread. What is no failure of model, memory or store is raised, not reported."""

    def __init__(self, worker: type[Worker] = Worker) -> None:
        self._worker_class = worker
        self._job: Job | None = None
        self._worker: Worker | None = None
        self._blocks: deque[Block] = deque()
        self._slot = 0

    @property
    def description(self) -> str:
        """One slot, whatever it needs."""
        return "this process, one slot"

    def share(self, device: Device) -> Share:
        """This machine, and whatever GPUs the model asks for."""
        return share(device, [Resources(num_cores(), device.gpus)], most_slots=1)

    def room(self, job: Job) -> int:
        """1 while no slot is open."""
        return int(self._job is None and job.size == 1)

    def capacity(self, job: Job) -> int:
        """1: a model that needs more than this machine has says so when it is loaded. There is no larger slot."""
        return int(job.size == 1)

    def open(self, job: Job) -> int:
        """Take the job; the model is loaded in the next `wait`."""
        self._job = job
        self._slot += 1
        return self._slot

    def submit(self, slot: int, block: Block) -> None:  # noqa: ARG002
        """Queue a block."""
        self._blocks.append(block)

    def wait(self, timeout_s: float) -> list[Event]:
        """Load the model or run one block, whichever comes next, however long it takes."""
        try:
            if self._job is not None and self._worker is None:
                return [self._load(self._job)]
            if self._worker is not None and self._blocks:
                receipt = self._worker.run(self._blocks[0])
                self._blocks.popleft()
                return [Done(self._slot, receipt)]
        except ModelError as error:
            return [self._failed(FailureClass.MODEL, error)]
        except StoreError as error:
            return [self._failed(FailureClass.STORE, error)]
        except OutOfMemory as error:
            return [self._failed(FailureClass.MEMORY, error)]
        time.sleep(timeout_s)
        return []

    def close(self, slot: int) -> None:
        """Forget the model."""
        if slot == self._slot:
            self.shutdown()

    def shutdown(self) -> None:
        """Forget the model and the blocks."""
        self._job = self._worker = None
        self._blocks.clear()

    def _load(self, job: Job) -> Ready:
        start = time.perf_counter()
        self._worker = self._worker_class(job)
        return Ready(self._slot, self._worker.device, time.perf_counter() - start)

    def _failed(self, failure: FailureClass, error: Exception) -> Failed:
        blocks = tuple(self._blocks)
        self.shutdown()
        return Failed(self._slot, failure, " ".join(str(error).split()) or type(error).__name__, blocks)
