"""The command, with notes of when each stage ended. Run by `benchmarks.startup`; the product knows nothing of it.

Times are those of the wall, so that the driver's and the worker's stand on one axis.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from workers.block import Block, Job, Receipt
from workers.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
NOTES = "RESIDUE_BENCHMARK_NOTES"


def note(stage: str) -> None:
    """The stage ended now. One short line in append mode: several processes may write."""
    with open(os.environ[NOTES], "a") as notes:  # noqa: PTH123
        notes.write(json.dumps((stage, time.time())) + "\n")


def noted(stage: str, function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a note when it returns."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        note(stage)
        return result

    return wrapped


class NotedWorker(Worker):
    """A worker that notes when its imports, its model and its first block are there."""

    def __init__(self, job: Job) -> None:
        note("worker process")
        if job.model.source.kind != "scripted":
            importlib.import_module("torch")
            note("import torch")
            importlib.import_module("workers.engine.loading")
            note("import transformers")
        super().__init__(job)
        note("model loaded, start-up checks done")

    def run(self, block: Block) -> Receipt:
        """The block."""
        return noted("first block committed", super().run)(block)


def main() -> int:
    """Patch the stages' ends in, then run the command."""
    note("python and the driver's light imports")
    from orchestrator import command, config, ledger, run
    from orchestrator.executors import ray

    note("driver imports")
    made: Any = run.__dict__["make_executor"]

    def staged(*args: Any, **kwargs: Any) -> Any:
        executor = made(*args, **kwargs)
        executor._worker = NotedWorker
        note("Ray started")
        return executor

    config.load = noted("configuration composed", config.load)
    command.prepare = noted("grid planned", command.prepare)  # type: ignore[attr-defined]
    ledger.write_run = noted("plan and run written", ledger.write_run)
    run.__dict__["make_executor"] = staged
    assert ray
    return command.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
