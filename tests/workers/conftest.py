"""The default episodes of the rollback study, and an engine without a model to run them on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator import config
from orchestrator.grid import expand, identify
from tests.planned import blocks, planned
from workers.block import Block, Job
from workers.engine.null import NullEngine
from workers.episode import Episode
from workers.spec import ModelSpec

Blocks = Callable[..., list[Block]]


@pytest.fixture(scope="session")
def scripted() -> ModelSpec:
    """The model file of the null engine."""
    return config.load(["model=scripted"]).models[0]


@pytest.fixture
def engine(scripted: ModelSpec) -> NullEngine:
    """A loaded null engine."""
    return NullEngine(scripted)


@pytest.fixture(scope="session")
def make_blocks() -> Blocks:
    """Overrides → the scripted model's blocks, one episode each."""

    def make(*overrides: str) -> list[Block]:
        composed = config.load(["model=scripted", *overrides])
        models = {model.name: identify(model, "weights", None) for model in composed.models}
        return blocks(planned(expand(composed, models)), 1)["scripted"]

    return make


@pytest.fixture(scope="session")
def attack(make_blocks: Blocks) -> Episode:
    """An imperative attack through a tool return."""
    where = "where=vehicle == 'tool_return' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0].episode


@pytest.fixture
def job(scripted: ModelSpec, tmp_path: Path) -> Job:
    """A worker's start on an empty store."""
    return Job(
        model=scripted,
        model_identity="{}",
        study="rollback",
        store=str(tmp_path / "store"),
        run_id="run",
        isolation="class",
        num_threads=1,
    )


def read_rows(job: Job) -> list[dict[str, Any]]:
    """Every row that the job's store holds, by cell."""
    folder = Path(job.store) / "trials" / job.study
    tables = [pq.read_table(path, partitioning=None) for path in sorted(folder.glob("*.parquet"))]
    return sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: row["cell_id"]) if tables else []


@pytest.fixture
def rows() -> Callable[[Job], list[dict[str, Any]]]:
    """`read_rows`, for tests."""
    return read_rows
