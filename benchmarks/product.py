"""The product's own command, in this process, for what is measured about it: nothing of its path is left out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.engine_time import EngineTime
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


@dataclass(frozen=True, slots=True)
class Slot:
    """What a slot takes and in which dtype it computes; None is what the model's YAML says."""

    cpus: int | None = None
    gpus: int | None = None
    dtype: str | None = None

    def of(self, model: ModelSpec) -> ModelSpec:
        """The model, on such a slot."""
        device = {"cpus": self.cpus, "gpus": self.gpus}
        said = {name: float(number) for name, number in device.items() if number is not None}
        dtype = {} if self.dtype is None else {"dtype": self.dtype}
        return model.model_copy(update={"device": model.device.model_copy(update=said), **dtype})


def prepared(overrides: Sequence[str], store: Path, slot: Slot | None = None) -> Prepared:
    """The command's grid against a store of its own.

    Args:
        slot: what a slot of each model takes, in place of what the model's YAML says.

    Raises:
        ConfigError: the model cannot run here.
    """
    composed = config.load([*overrides, *QUIET, f"store.root={store}"])
    if slot is not None:
        composed = replace(composed, models=tuple(map(slot.of, composed.models)))
    found = running.prepare(composed)
    if found.blocked:
        raise ConfigError("; ".join(f"{model}: {why}" for model, why in found.blocked.items()))
    ledger.check_writable(found.store)
    return found


def carried_out(found: Prepared, executor: Executor | None, heard: Heard | None = None) -> Result:
    """Run it, on that executor where one is given.

    Raises:
        ConfigError: not every trial was recorded, or not at once.
    """
    with contextlib.ExitStack() as stack:
        if executor is not None:
            stack.enter_context(mock.patch.object(running, "make_executor", return_value=executor))
        result = running.carry_out(found, "benchmark", ["benchmark"], [heard] if heard else [])
    problems = heard.problems if heard else []
    if problems or not result.is_complete:
        why = next(iter([*problems, *result.missing]), "see the rows' errors")
        raise ConfigError(f"the run is not complete, so its time means nothing: {why}")
    return result


@dataclass
class Clock:
    """What the blocks of a run took, in the worker.

    Attributes:
        block_s: seconds of each block, its commit included.
        block_trials: trials of each.
        engine: how much of it the engine took.
    """

    block_s: list[float] = field(default_factory=list)
    block_trials: list[int] = field(default_factory=list)
    engine: EngineTime = field(default_factory=EngineTime)

    @property
    def total_s(self) -> float:
        """All blocks."""
        return sum(self.block_s)


@dataclass
class Heard:
    """A listener that notes when what happened.

    Attributes:
        ready_s: the model was loaded.
        done: (time, receipt) of each block.
    """

    ready_s: float = 0.0
    done: list[tuple[float, Receipt]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def started(self, start: object) -> None:
        """Nothing to note."""

    def slot_ready(self, model: str, device: str, load_s: float) -> None:  # noqa: ARG002
        """Blocks are worked on from now on."""
        self.ready_s = time.perf_counter()

    def block_done(self, receipt: Receipt) -> None:
        """Note it."""
        self.done.append((time.perf_counter(), receipt))

    def problem(self, model: str, message: str) -> None:  # noqa: ARG002
        """Note it: such a run's times mean nothing."""
        self.problems.append(message)

    def finished(self, missing: object) -> None:
        """Nothing to note."""


def timed(clock: Clock) -> type[Worker]:
    """A worker that adds each block's time to the clock."""

    class Timed(Worker):
        def run(self, block: Block) -> Receipt:
            start = time.perf_counter()
            with clock.engine.running():
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
