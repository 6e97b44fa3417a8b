"""What runs on the machines of the cluster: a worker, and the check that it may work there."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import ray
from ray.util import get_node_ip_address

from orchestrator.executors.versions import differences, versions
from workers.block import Block, Job, Receipt
from workers.errors import ModelError
from workers.worker import Worker

MAX_REASON_BYTES = 300


class Actor:
    """A slot on some machine. Every step is a call and none is its construction, so that errors keep their types."""

    def arrive(self, driver: dict[str, str]) -> str:
        """The machine's id in the cluster.

        Raises:
            ModelError: its versions are not those of the driver.
        """
        if clauses := differences(versions(), driver):
            raise ModelError(f"versions differ on {get_node_ip_address()}: {clauses}")  # type: ignore[no-untyped-call]
        return str(ray.get_runtime_context().get_node_id())

    def load(self, worker: type[Worker], job: Job) -> tuple[str, float, str]:
        """Load the model; its device, the seconds that took, and the machine with the GPUs that it is on."""
        start = time.perf_counter()
        # Ray says so from the CPUs that were asked for, but not to a process that had started before.
        os.environ["OMP_NUM_THREADS"] = str(job.num_threads)
        self.worker = worker(job)
        return self.worker.device, time.perf_counter() - start, _place()

    def run(self, block: Block) -> Receipt:
        """Compute and commit a block; the receipt stays under 1 KB, in whatever script its reasons are written."""
        receipt = self.worker.run(block)
        room = MAX_REASON_BYTES // max(1, len(receipt.reasons))
        return replace(receipt, reasons={status: _cut(text, room) for status, text in receipt.reasons.items()})


def _place() -> str:
    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    machine = f"{get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"  # type: ignore[no-untyped-call]
    return f"{machine} GPU {','.join(gpus)}" if gpus else machine


def _cut(text: str, num_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:num_bytes].decode("utf-8", "ignore")
