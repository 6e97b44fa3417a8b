"""A worker without an engine, whose faults are files in its store: a test plants them, and sees what was reached."""

from __future__ import annotations

import os
import time
from pathlib import Path

from workers.block import Block, Job, Receipt
from workers.errors import ModelError, OutOfMemory, StoreError


class Fake:
    """Commits a block as an empty file `done-<block>`; stops at a block while a file `hold` is there."""

    def __init__(self, job: Job) -> None:
        self.folder = Path(job.store)
        if (self.folder / "no-model").exists():
            raise ModelError("planted:\nno model")
        if self._once("die-loading"):
            os._exit(1)
        self.device = "none"

    def run(self, block: Block) -> Receipt:
        if (self.folder / "no-store").exists():
            raise StoreError("planted: no store")
        if (self.folder / "bug").exists():
            raise KeyError("planted")
        if (self.folder / "full").exists():
            raise OutOfMemory("planted")
        (self.folder / f"pid-{os.getpid()}").touch()
        while (self.folder / "hold").exists():
            time.sleep(0.01)
        if self._once("die"):
            os._exit(1)
        (self.folder / f"done-{block.name}").touch()
        return Receipt(block.name, block.model, block.num_trials, True, {"done": block.num_trials}, {}, {}, 0.0)

    def _once(self, name: str) -> bool:
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True
