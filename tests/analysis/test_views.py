"""The SQL reads as the house writes it, and `analysis` knows tables, not code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import analysis
from analysis import views

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
    assert sorted(path.stem for path in FILES) == views.names()
    assert {path.parent.name for path in FILES} == set(views.STAGES)
    assert {"trials", "trials_all", "census", "coverage"} <= set(views.names())


def test_a_view_comes_after_those_that_it_reads():
    seen = set()
    for view in views.views():
        assert {other.name for other in views.needed(f"from {view.name}")} - {view.name} <= seen
        seen.add(view.name)


def test_only_what_a_query_names_is_read():
    assert [view.name for view in views.needed("from trials_all")] == ["trials_all"]
    assert views.needed("select 1") == []


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
