"""A worker commits a block once, whole, in the declared schema, and answers with counts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.planned import halves
from workers import parquet
from workers.block import Block, Job
from workers.errors import StoreError
from workers.identity import Identity
from workers.schema import CORE
from workers.studies import get
from workers.worker import Worker

Rows = Callable[[Job], list[dict[str, Any]]]


@pytest.fixture
def block(make_blocks: Callable[..., list[Block]]) -> Block:
    first, second, *_ = make_blocks("where=strength == 'imperative' and vehicle == 'tool_return'")
    return Block("scripted", first.works + second.works)


def test_a_block_is_one_row_a_trial_and_each_row_explains_itself(job: Job, block: Block, rows: Rows) -> None:
    Worker(job).run(block)
    found = rows(job)
    assert len(found) == block.num_trials == 12
    for row in found:
        assert Identity.from_text(row["identity"]).cell_id == row["cell_id"]
        assert row["status"] == "done"
        assert row["reply"].startswith("SEND quarterly-report TO ")
        always = {"committed_ids", "branch_ids", "delta_ids", "reply_ids", "episode", "versions", "host", "run_id"}
        assert not [name for name in always if row[name] in (None, [], "")]


def test_every_column_of_the_schema_is_filled_by_some_row(job: Job, block: Block, rows: Rows) -> None:
    Worker(job).run(block)
    found = rows(job)
    declared = [column.name for column in (*CORE, *get("rollback").columns)]
    empty = {name for name in declared if all(row[name] is None for row in found)}
    assert empty == {"error", "traceback", "failure", "window_tokens"}


def test_a_part_of_failures_alone_has_the_types_of_every_other(
    job: Job, block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    """duckdb#15600, duckdb#13245, ray#60572: a column of nulls, or of other fields, has no type of its own."""
    Worker(job).run(Block(block.model, block.works[:1]))
    monkeypatch.setattr("workers.wave.split", lambda *args: 1 / 0)
    Worker(job).run(Block(block.model, block.works[1:]))
    done, failed = (pq.read_table(path, partitioning=None) for path in Path(job.store).glob("trials/*/*.parquet"))
    assert {*done["status"].to_pylist(), *failed["status"].to_pylist()} == {"done", "error"}
    assert done.schema.equals(failed.schema)
    assert not any(pa.types.is_null(kind) or pa.types.is_struct(kind) for kind in done.schema.types)


def test_the_receipt_is_counts_only_and_small(job: Job, block: Block) -> None:
    receipt = Worker(job).run(block)
    assert receipt.statuses == {"done": 12}
    assert receipt.flips == {"stale": 1, "text_present": 1}
    assert receipt.is_first
    assert len(pickle.dumps(receipt)) < 1024


def test_without_a_reference_trial_in_the_block_flips_are_unknown_and_not_none(job: Job, block: Block) -> None:
    works = tuple(replace(work, trials=tuple(t for t in work.trials if t.arm != "cold")) for work in block.works)
    assert Worker(job).run(replace(block, works=works)).flips is None


def test_a_zombie_that_commits_the_same_block_again_changes_nothing(job: Job, block: Block, rows: Rows) -> None:
    """semaprax#192: a lease holder that comes back from the dead."""
    Worker(job).run(block)
    before = rows(job)
    late = Worker(replace(job, run_id="zombie")).run(block)
    assert not late.is_first
    assert rows(job) == before


def test_a_store_that_cannot_be_written_is_one_line_and_no_row(
    job: Job, block: Block, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise StoreError("cannot write x: No space left on device")

    monkeypatch.setattr(parquet, "commit", refuse)
    with pytest.raises(StoreError):
        Worker(job).run(block)
    assert not rows(job)


def test_blocks_of_the_same_trials_cut_elsewhere_give_the_same_sealed_rows(job: Job, block: Block, rows: Rows) -> None:
    other = replace(job, store=job.store + "-cut")
    Worker(job).run(block)
    for half in halves(block):
        Worker(other).run(half)
    sealed = [column.name for column in (*CORE, *get("rollback").columns) if column.is_sealed]
    assert [[row[n] for n in sealed] for row in rows(job)] == [[row[n] for n in sealed] for row in rows(other)]
