"""What a run says at its end comes from the store, and one part that DuckDB cannot read does not silence it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.answers import published
from workers.errors import StoreError
from workers.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "results")
    made.prepare()
    return made


def test_an_empty_store_has_answers_and_judges_nothing(store: Store) -> None:
    answers = published(store)
    assert answers.is_whole
    assert (answers.flips, answers.num_judged, answers.reasons) == ({}, 0, {})


def test_a_part_that_duckdb_cannot_read_is_kept_aside_and_the_rest_published(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [store.runs / "part-bad.parquet", store.trials("rollback") / "part-bad.parquet"]
    for path in bad:
        path.write_bytes(b"damage")
    assert not published(store).is_whole
    assert capsys.readouterr().err.count("is damaged; kept as ") == 2
    assert not [path for path in bad if path.exists()]
    assert len(list(store.aside.iterdir())) == 2
    assert published(store).is_whole


def test_a_damaged_empty_part_is_made_anew(store: Store) -> None:
    for path in store.runs.iterdir():
        path.write_bytes(b"damage")
    published(store)
    assert published(store).is_whole


def test_a_store_that_went_away_is_one_line(store: Store) -> None:
    shutil.rmtree(store.root)
    with pytest.raises(StoreError, match="was removed while the run went on"):
        published(store)
