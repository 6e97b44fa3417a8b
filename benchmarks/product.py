"""The product's own command, in this process, for what is measured about it: nothing of its path is left out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from orchestrator import config, ledger
from orchestrator import run as running
from orchestrator.executors.base import Executor
from orchestrator.executors.inline import InlineExecutor
from orchestrator.run import Prepared, Result
from workers import engine, parquet
from workers.block import Block, Receipt
from workers.errors import ConfigError
from workers.spec import ModelSpec
from workers.worker import Worker

QUIET = ("tracking=off",)


def prepared(overrides: Sequence[str], store: Path) -> Prepared:
    """The command's grid against a store of its own.

    Raises:
        ConfigError: the model cannot run here.
    """
    found = running.prepare(config.load([*overrides, *QUIET, f"store.root={store}"]))
    if found.blocked:
        raise ConfigError("; ".join(f"{model}: {why}" for model, why in found.blocked.items()))
    ledger.check_writable(found.store)
    return found


def carried_out(found: Prepared, executor: Executor | None, listeners: Sequence[Any] = ()) -> Result:
    """Run it, on that executor where one is given.

    Raises:
        ConfigError: not every trial was recorded.
    """
    with contextlib.ExitStack() as stack:
        if executor is not None:
            stack.enter_context(mock.patch.object(running, "make_executor", return_value=executor))
        result = running.carry_out(found, "benchmark", ["benchmark"], listeners)
    if not result.is_complete:
        why = next(iter(result.missing), "see the rows' errors")
        raise ConfigError(f"the run is not complete, so its time means nothing: {why}")
    return result


@dataclass
class Clock:
    """What the blocks of a run took, in the worker.

    Attributes:
        block_s: seconds of each block, its commit included.
        block_trials: trials of each.
    """

    block_s: list[float] = field(default_factory=list)
    block_trials: list[int] = field(default_factory=list)

    @property
    def total_s(self) -> float:
        """All blocks."""
        return sum(self.block_s)


def timed(clock: Clock) -> type[Worker]:
    """A worker that adds each block's time to the clock."""

    class Timed(Worker):
        def run(self, block: Block) -> Receipt:
            start = time.perf_counter()
            receipt = super().run(block)
            clock.block_s.append(time.perf_counter() - start)
            clock.block_trials.append(receipt.num_trials)
            return receipt

    return Timed


def inline(worker: type[Worker]) -> InlineExecutor:
    """One slot in this process."""
    return InlineExecutor(worker)


@contextlib.contextmanager
def loaded_once() -> Iterator[None]:
    """Several runs in this process share one engine, so that none pays for loading it."""
    load, kept = engine.load, dict[str, Any]()

    def remembered(spec: ModelSpec, **options: Any) -> Any:
        if spec.name not in kept:
            kept[spec.name] = load(spec, **options)
        return kept[spec.name]

    with mock.patch.object(engine, "load", remembered):
        yield


def rows(found: Prepared, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Those columns of every row that the run recorded, and its status."""
    folder = found.store.trials(found.composed.study.name)
    tables = [parquet.read(part, [*columns, "status"]) for part in parquet.parts(folder)]
    return [row for table in tables for row in table.to_pylist()]
