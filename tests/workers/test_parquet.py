"""A file's existence is the commit: first wins, nothing is half there, nothing is deleted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers import parquet
from workers.errors import StoreError
from workers.store import Store

TABLE = pa.table({"a": [1, 2], "b": ["x", "y"]})
OTHER = pa.table({"a": [3], "b": ["z"]})


def test_committing_twice_is_committing_once_and_the_first_wins(tmp_path: Path) -> None:
    """ray#25176: a retried method does its work twice."""
    assert parquet.commit(tmp_path, "n", TABLE)
    assert not parquet.commit(tmp_path, "n", OTHER)
    assert pq.read_table(tmp_path / "part-n.parquet", partitioning=None).equals(TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["part-n.parquet"]


def test_what_is_being_written_matches_no_glob_of_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def link(beside: Path, final: Path) -> None:
        seen.extend(path.name for path in tmp_path.iterdir())
        raise OSError(errno.EIO, "planted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StoreError):
        parquet.commit(tmp_path, "n", TABLE)
    assert len(seen) == 1
    assert not seen[0].endswith(".parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_write_that_fails_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    parquet.commit(tmp_path, "before", TABLE)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(pq, "write_table", refuse)
    with pytest.raises(StoreError, match=r"store\.root="):
        parquet.commit(tmp_path, "n", TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["part-before.parquet"]


def test_a_file_system_without_links_still_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert parquet.commit(tmp_path, "n", TABLE)
    assert not parquet.commit(tmp_path, "n", OTHER)
    assert [path.name for path in tmp_path.iterdir()] == ["part-n.parquet"]


def test_text_that_is_no_unicode_is_stored_and_not_a_crash() -> None:
    table = parquet.rows_to_table([{"a": "x\udcff\x00y"}], pa.schema([("a", pa.string())]))
    assert table["a"].to_pylist() == ["x?\x00y"]


def test_a_row_with_an_unknown_column_is_refused() -> None:
    with pytest.raises(KeyError, match="b"):
        parquet.rows_to_table([{"b": 1}], pa.schema([("a", pa.int64())]))


def damage_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def damage_head(path: Path) -> None:
    path.write_bytes(b"not parquet")


def damage_page(path: Path) -> None:
    chunk = pq.read_metadata(path).row_group(0).column(5)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [damage_tail, damage_head, damage_page, empty])
def test_a_damaged_part_is_seen_and_set_aside_whole(tmp_path: Path, damage: object) -> None:
    """duckdb#14990, forma#251: one broken part fails every query that meets it.

    inspect#5396: nothing is cleaned away.
    """
    store = Store(tmp_path)
    store.prepare()
    folder = store.trials("rollback")
    schema = pq.read_schema(next(folder.iterdir()))
    parquet.commit(folder, "bad", parquet.rows_to_table([{"cell_id": "c", "arm": "stale"}], schema))
    bad = folder / "part-bad.parquet"
    damage(bad)  # type: ignore[operator]
    content = bad.read_bytes()
    assert store.damaged() == [bad]
    moved = store.set_aside(bad)
    assert moved.read_bytes() == content
    assert not store.damaged()


def test_a_foreign_parquet_file_is_damage_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    parquet.commit(store.trials("rollback"), "foreign", TABLE)
    assert store.damaged() == [store.trials("rollback") / "part-foreign.parquet"]


def test_a_part_of_an_earlier_schema_is_not_damage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    early = pa.table({"cell_id": ["c"], "draw": [0], "status": ["done"], "generation": [0]})
    parquet.commit(store.trials("rollback"), "early", early)
    assert not store.damaged()


@pytest.mark.parametrize("name", ["with space", "quo'te\"s", "a=b", "new\nline", "[brackets]", "\N{BABY CHICK}", "%41"])
def test_a_store_lives_in_any_folder(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / name)
    store.prepare()
    store.prepare()
    assert not store.damaged()


STRANGE = pa.table({"run_id": [1], "sequence": ["first"]})
RENAMED = pa.table({"cell_id": ["c"], "draw": [0], "statuz": ["done"]})


@pytest.mark.parametrize(("place", "table"), [("runs", STRANGE), ("trials/rollback", RENAMED), ("trials/other", TABLE)])
def test_a_part_with_other_types_or_names_is_not_ours(tmp_path: Path, place: str, table: pa.Table) -> None:
    """A flipped bit in a footer can leave a part that pyarrow reads, and DuckDB does not.

    duckdb#15600, duckdb#13245: files of one table whose types differ.
    """
    store = Store(tmp_path)
    store.prepare()
    parquet.commit(tmp_path / place, "foreign", table)
    assert store.damaged() == [tmp_path / place / "part-foreign.parquet"]
    assert next(iter(store.readable(store.runs, ("sequence",)))).num_rows == 0


def test_parts_of_a_study_that_this_checkout_does_not_have_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    theirs = {"cell_id": ["c"], "draw": [0], "study": ["other"], "their_axis": [1]}
    parquet.commit(store.trials("other"), "theirs", pa.table(theirs))
    plan = {"plan_id": ["p"], "grid": ["g"], "study": ["other"], "their_axis": [1]}
    parquet.commit(store.plans, "theirs", pa.table(plan))
    assert not store.damaged()


def test_two_parts_of_one_name_are_both_kept_aside(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    bad = store.runs / "part-bad.parquet"
    for content in (b"first", b"second"):
        bad.write_bytes(content)
        store.set_aside(bad)
    assert {path.read_bytes() for path in store.aside.iterdir()} == {b"first", b"second"}


def test_no_statistics_are_written_that_a_flipped_bit_could_turn_against_the_rows(tmp_path: Path) -> None:
    parquet.commit(tmp_path, "n", TABLE)
    group = pq.read_metadata(tmp_path / "part-n.parquet").row_group(0)
    assert not any(group.column(at).is_stats_set for at in range(group.num_columns))


def test_a_column_name_that_is_no_text_is_damage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    parquet.commit(store.runs, "bad", pa.table({"run_id": ["r"], "sequence": [1]}))
    bad = store.runs / "part-bad.parquet"
    bad.write_bytes(bad.read_bytes().replace(b"sequence", b"sequenc\xec"))
    assert store.damaged() == [bad]
