"""The SQL reads as the house writes it, and `analysis` knows tables, not code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import analysis
from analysis import views
from analysis.errors import AnalysisError

FILES = sorted(views.SQL.rglob("*.sql"))
MODULES = sorted(Path(analysis.__file__).parent.rglob("*.py"))


def code(path):
    return re.sub(r"'(?:[^']|'')*'|--[^\n]*", "", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_first_line_of_a_view_says_its_grain_and_its_question(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(r"-- One row per [^?]+\. [A-Z][^?]+\?", first)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_view_is_lower_case_and_only_staging_reads_parquet(path):
    sql = code(path)
    assert sql == sql.lower()
    assert ("read_parquet" in sql) == ("$" in sql) == (path.parent.name == "staging")
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120


def test_every_file_is_one_view_of_a_known_stage():
    assert sorted(path.stem for path in FILES) == sorted([*views.names(), *(view.name for view in views.pairs())])
    assert {path.parent.name for path in FILES} == {*views.STAGES, *views.PAIRS}
    assert {"trials", "trials_all", "census", "coverage"} <= set(views.names())


def test_a_view_comes_after_those_that_it_reads():
    seen = set()
    for view in views.views():
        assert {other.name for other in views.needed(f"from {view.name}")} - {view.name} <= seen
        seen.add(view.name)


def test_only_what_a_query_names_is_read():
    assert [view.name for view in views.needed("from trials_all")] == ["trials_all"]
    assert views.needed("select 1") == []


def test_a_query_over_two_sides_is_no_view_of_a_store():
    assert [view.name for view in views.needed("from changed_columns", views.pairs())] == [
        "changed_rows",
        "changed_columns",
    ]
    assert views.needed("from changed_columns") == []
    assert not {view.name for view in views.pairs()} & set(views.names())


def test_parts_that_are_left_out_are_named_no_more(tmp_path):
    for name in ("one", "it's"):
        (tmp_path / "runs").mkdir(exist_ok=True)
        (tmp_path / "runs" / f"part-{name}.parquet").touch()
    (runs,) = (view for view in views.views() if view.name == "runs")
    left = views.over(runs, tmp_path, without={tmp_path / "runs" / "part-one.parquet"})
    assert "part-it''s.parquet']" in left
    assert "part-one" not in left
    with pytest.raises(AnalysisError, match=r"no part of .*runs can be read"):
        views.over(runs, tmp_path, without=set(views.parts(tmp_path)))


def test_nothing_but_the_store_is_substituted():
    root = Path("/a $trials 'b'")
    staged = {view.name: views.over(view, root) for view in views.views() if view.stage == "staging"}
    assert "'/a $trials ''b''/trials/*/part-*.parquet'" in staged["trials_all"]
    assert all(views.over(view, root) == view.sql for view in views.views() if view.stage != "staging")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_analysis_imports_none_of_our_packages_and_duckdb_by_one_door(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    found |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not found & {"workers", "orchestrator", "torch", "transformers"}
    assert ("duckdb" in found) == (path.name == "warehouse.py")
