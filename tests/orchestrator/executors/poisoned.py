"""A worker that dies, hangs or breaks over one arm for as long as a file beside its store says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from workers.block import Block, Receipt
from workers.worker import Worker

ARM = "fresh"


class Poisoned(Worker):
    """The real worker, but for the blocks that hold `ARM` of the first vehicle."""

    def run(self, block: Block) -> Receipt:
        """As a worker, unless the file says how it ends."""
        order = Path(self.job.store).parent / "poison"
        if order.exists() and any(trial.arm == ARM for work in block.works for trial in work.trials):
            self._end(order.read_text())
        return super().run(block)

    def _end(self, how: str) -> None:
        if how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "hang":
            # Not even a signal handler or a heartbeat runs in a stopped process.
            os.kill(os.getpid(), signal.SIGSTOP)
        raise ZeroDivisionError("planted")
