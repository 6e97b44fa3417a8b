"""The budgets that keep the tree readable, and the names that refuse to grow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "workers", "analysis")

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
# Such a name refuses nothing, so what it names grows.
SHAPELESS = {"common", "core", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}


def files(pattern: str, *folders: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob(pattern))


def complaints(source: str, path: str) -> Iterator[str]:
    """What is wrong with the layout of one module."""
    tree = ast.parse(source)
    if not ast.get_docstring(tree):
        yield "no module docstring"
    if len(source.splitlines()) > MAX_FILE_LINES:
        yield f"over {MAX_FILE_LINES} lines"
    for part in Path(path).with_suffix("").parts:
        if words := SHAPELESS.intersection(part.split("_")):
            yield f"a shapeless name: {words.pop()}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= MAX_FUNCTION_LINES:
                yield f"{node.name} is over {MAX_FUNCTION_LINES} lines"


def sql_complaints(source: str) -> Iterator[str]:
    """What is wrong with the layout of one view."""
    if not source.startswith("-- One row per "):
        yield "the first line does not give the grain: -- One row per …"
    if (count := len(duckdb.extract_statements(source))) != 1:
        yield f"{count} statements"


@pytest.mark.parametrize("path", files("*.py", *PACKAGES))
def test_a_module_keeps_its_budget(path: str) -> None:
    assert list(complaints((ROOT / path).read_text(encoding="utf-8"), path)) == []


@pytest.mark.parametrize("path", files("*.sql", "sql"))
def test_a_view_is_one_statement_and_states_its_grain(path: str) -> None:
    assert list(sql_complaints((ROOT / path).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("workers/cell.py", "import os\n", "no module docstring"),
        ("workers/cell.py", '"""Doc."""\n' + "\n" * 400, "over 400 lines"),
        ("workers/cell_utils.py", '"""Doc."""\n', "a shapeless name: utils"),
        ("workers/common/cell.py", '"""Doc."""\n', "a shapeless name: common"),
        ("workers/cell.py", '"""Doc."""\nclass A:\n  def f(self):\n' + "    pass\n" * 60, "f is over 60 lines"),
    ],
)
def test_a_planted_fault_is_found(path: str, source: str, complaint: str) -> None:
    assert list(complaints(source, path)) == [complaint]


def test_a_module_at_its_limits_passes() -> None:
    source = '"""Doc."""\ndef f():\n' + "    pass\n" * 59 + "\n" * 339
    assert len(source.splitlines()) == 400
    assert list(complaints(source, "workers/scores.py")) == []


@pytest.mark.parametrize(
    ("source", "num_complaints"),
    [
        ("-- One row per cell. How many; and why?\nselect ';' as text", 0),
        ("-- One row per cell.\nselect 1;\n", 0),
        ("select 1", 1),
        ("-- One row per cell.\nselect 1; select 2", 1),
        ("-- one row a cell\n", 2),
    ],
)
def test_the_sql_detector_works_both_ways(source: str, num_complaints: int) -> None:
    assert len(list(sql_complaints(source))) == num_complaints
