"""The torture run sees what it is there to see."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import torture
from orchestrator import config
from orchestrator.ledger import check_writable
from orchestrator.run import carry_out, prepare

SAID = ["model=scripted", "limit=12", "tracking=off", "executor=inline", "block_episodes=1"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    prepared = prepare(config.load([*SAID, f"store.root={tmp_path / 'results'}"]))
    check_writable(prepared.store)
    carry_out(prepared, "run", [], [])
    return tmp_path / "results"


def a_part(store: Path) -> Path:
    return next(part for part in store.glob("trials/*/part-*.parquet") if "empty" not in part.name)


def lose(part: Path) -> None:
    part.unlink()


def double(part: Path) -> None:
    shutil.copy(part, part.with_name("part-other.parquet"))


def alter(part: Path, column: str) -> None:
    table = pq.read_table(part, partitioning=None)
    values = pa.array(["other"] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index(column), table.schema.field(column), values), part)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lose, "missing: "),
        (double, "2 rows of "),
        (lambda part: alter(part, "cell_id"), "from nowhere: "),
        (lambda part: alter(part, "status"), "rows are other"),
    ],
)
def test_a_lost_a_doubled_a_foreign_and_a_failed_row_are_found(
    store: Path, harm: Callable[[Path], None], words: str
) -> None:
    assert list(torture.wrongs(store.parent, SAID, store)) == []
    harm(a_part(store))
    assert [line for line in torture.wrongs(store.parent, SAID, store) if words in line]


def test_two_runs_of_one_grid_are_alike_until_a_sealed_value_differs(store: Path) -> None:
    other = shutil.copytree(store, store.parent / "other")
    assert list(torture.unlike(store, other)) == []
    alter(a_part(other), "reply")
    assert list(torture.unlike(store, other))
