"""One door to the store: any folder name, read only, and a published file that says the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import analysis
from analysis import warehouse
from analysis.views import names

FOLDERS = (
    "with space",
    'it\'s "quoted"',
    "brackets[a-z]",
    "model=m",
    "new\nline",
    "emoji 🧪",
    "star*mark?",
    "{a,b}",
    "$trials",
    "-- comment; select 1",
)


def everything(connection_rows):
    return {name: sorted(map(repr, connection_rows(f"select * from {name}"))) for name in names()}


def published(root):
    with duckdb.connect(str(root / "residue.duckdb"), read_only=True) as shell:
        shell.execute("set TimeZone = 'UTC'")
        return everything(lambda query: shell.sql(query).to_arrow_table().to_pylist())


def in_memory(root):
    with analysis.connect(root) as house:
        return everything(lambda query: house.sql(query).to_pylist())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_store_may_live_in_any_folder(make_store, folder):
    builder = make_store(folder)
    make_store("bracketsb").store(builder.trial(version=7))  # what `brackets[a-z]` would match as a glob
    builder.store(*builder.episode(flips=True))
    assert builder.row("select num_flips from census where arm = 'stale'") == {"num_flips": 1}
    analysis.publish(builder.root)
    assert len(published(builder.root)["trials"]) == 4


def test_the_one_folder_name_that_duckdb_cannot_read_is_refused_in_words(make_store):
    with pytest.raises(analysis.AnalysisError, match="backslash in its name"):
        analysis.connect(make_store("back\\slash").root)


def test_an_empty_store_answers_every_view_with_no_row_but_the_registries(builder):
    """A registry lists what is known, whether it was run or not."""
    analysis.publish(builder.root)
    for answers in (in_memory(builder.root), published(builder.root)):
        assert {view for view, rows in answers.items() if rows} == {"compositions", "serving_layers"}
        assert not any(row["done"] for row in builder.rows("from compositions"))


def test_the_published_views_equal_ours(builder):
    rows = [*builder.episode(flips=True), *builder.episode(kind="control", effect_status="unparseable")]
    builder.run([*rows, builder.trial(version=2, blocked="no weights")])
    builder.record(*rows)
    builder.miss(builder.trial(version=3), "lost")
    analysis.publish(builder.root)
    assert published(builder.root) == in_memory(builder.root)


def test_the_published_file_shows_what_is_committed_later(builder):
    analysis.publish(builder.root)
    builder.store(builder.trial())
    assert len(published(builder.root)["trials"]) == 1


def test_publishing_works_while_a_shell_holds_the_old_file(builder):
    """lm-evaluation-harness#796, HELM#1914: a database that several processes write to."""
    analysis.publish(builder.root)
    with duckdb.connect(str(builder.root / "residue.duckdb")) as shell:
        builder.store(builder.trial())
        analysis.publish(builder.root)
        assert shell.execute("select count(*) from trials").fetchall() == [(1,)]
    assert len(published(builder.root)["trials"]) == 1


def test_a_log_of_the_replaced_file_does_not_spoil_the_new_one(builder):
    analysis.publish(builder.root)
    (builder.root / "residue.duckdb.wal").write_bytes(b"not of this file")
    analysis.publish(builder.root)
    assert published(builder.root)["trials"] == []


@pytest.mark.parametrize("failing", ["views", "replace"])
def test_a_failed_publication_leaves_the_old_file_and_nothing_beside_it(builder, monkeypatch, failing):
    analysis.publish(builder.root)
    before = (builder.root / "residue.duckdb").read_bytes()
    if failing == "views":
        known = warehouse.views()
        monkeypatch.setattr(
            warehouse, "views", lambda: (*known, known[0]._replace(name="broken", sql="select nothing"))
        )
    else:

        def refuse(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(analysis.AnalysisError):
        analysis.publish(builder.root)
    assert (builder.root / "residue.duckdb").read_bytes() == before
    assert sorted(path.name for path in builder.root.iterdir() if path.is_file()) == ["residue.duckdb"]


def test_a_second_study_is_read_beside_the_first(builder):
    builder.store(builder.trial())
    other = pa.table({"cell_id": ["c"], "draw": [0], "study": ["field_edit"], "field": ["date"], "recomputed": [3]})
    (builder.root / "trials" / "field_edit").mkdir()
    pq.write_table(other, builder.root / "trials" / "field_edit" / "part-1.parquet")
    rows = builder.rows("select study, field, vehicle from trials_all order by study")
    assert rows == [
        {"study": "field_edit", "field": "date", "vehicle": None},
        {"study": "rollback", "field": None, "vehicle": "user_turn"},
    ]
    assert len(builder.rows("from trials")) == 1


def test_files_being_written_are_not_read(builder):
    builder.store(builder.trial())
    (builder.root / "trials" / "rollback" / "part-9.abc.tmp").write_bytes(b"half")
    assert len(builder.rows("from trials_all")) == 1


def test_a_copy_of_a_store_inside_a_store_is_not_counted(builder):
    """inspect#5175: logs of subfolders were taken for the run's own."""
    builder.store(*builder.episode())
    num = len(builder.rows("from trials_all"))
    shutil.copytree(builder.root / "trials" / "rollback", builder.root / "trials" / "rollback" / "before")
    shutil.copytree(builder.root / "trials", builder.root / "kept" / "trials")
    assert len(builder.rows("from trials_all")) == num


@pytest.mark.parametrize(
    "attempt",
    [
        "copy (select 1) to '{root}/evil.csv'",
        "with a as (copy (select 1) to '{root}/evil.csv') select 1",
        "select * from query('with a as (copy (select 1) to ''{root}/evil.csv'') select 1')",
        "select 1) ; copy (select 1) to '{root}/evil.csv'; select (1",
        "explain analyze copy (select 1) to '{root}/evil.csv'",
        "attach '{root}/evil.duckdb'",
        "export database '{root}/evil'",
        "set enable_external_access = true",
        "install httpfs",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/hostname')",
        "create table t as select 1",
        "select 1; select 2",
        "",
    ],
)
def test_sql_can_neither_write_nor_reach_outside_the_store(builder, attempt):
    before = sorted(builder.root.rglob("*"))
    with analysis.connect(builder.root) as house, pytest.raises(analysis.AnalysisError):
        house.sql(attempt.format(root=builder.root))
    assert sorted(builder.root.rglob("*")) == before


@pytest.mark.parametrize(
    "query", ["select 1;", "select 1 -- so", "/* é */ select 'é;' as a ; -- so", "describe census"]
)
def test_a_query_may_end_as_people_end_it(builder, query):
    assert builder.rows(query)


def test_parameters_are_bound(builder):
    builder.store(builder.trial(model="m'; drop"))
    with analysis.connect(builder.root) as house:
        assert house.sql("from trials where model = ?", ["m'; drop"]).num_rows == 1


def test_order_survives(builder):
    assert [row["n"] for row in builder.rows("select range as n from range(5) order by n desc")] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from cenus", "no view 'cenus', did you mean 'census'?"),
        ("select num_flip from census", 'Candidate bindings: "num_flips"'),
        ("selct 1", 'syntax error at or near "selct"'),
        ("select '\udcff'", "no UTF-8"),
    ],
)
def test_a_wrong_query_is_one_line_that_helps(builder, query, said):
    with pytest.raises(analysis.AnalysisError) as caught:
        builder.rows(query)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_store_says_how_to_make_one(tmp_path):
    with pytest.raises(analysis.AnalysisError, match=r"no results at .*nowhere: run `python -m orchestrator` first"):
        analysis.connect(tmp_path / "nowhere")
    with pytest.raises(analysis.AnalysisError, match="no results"):
        analysis.publish(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_part_is_named(builder, damage):
    builder.store(*builder.episode())
    part = builder.part_with("arm", "stale")
    whole = part.read_bytes()
    part.write_bytes(whole[:100] if damage == "truncated" else whole[:4] + b"\xff" * 400 + whole[404:])
    with pytest.raises(analysis.AnalysisError, match=part.name):
        builder.rows("from trials_all")


def test_pandas_and_polars_read_the_answers_and_the_parts(builder):
    builder.store(*builder.episode(flips=True))
    with analysis.connect(builder.root) as house:
        table = house.sql("from trials where is_flip order by arm")
    assert table.to_pandas()["arm"].to_list() == ["stale", "text_present"]
    assert pl.from_arrow(table)["arm"].to_list() == ["stale", "text_present"]
    assert len(pd.read_parquet(builder.root / "trials" / "rollback")) == 4
    assert pl.read_parquet(builder.root / "trials" / "rollback" / "*.parquet").height == 4
