"""`docs/faults.md` promises what a test proves, and no more."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from mutants.table import MUTANTS

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<fault>[^|]+) \| (?P<claim>[^|]+) \| `(?P<test>tests/[^`|]+)` \| (?P<guard>[^|]+) \|$")
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [found for line in PAGE.splitlines() if (found := ROW.match(line))]
NO_GUARD = "-"


def complaint(test: str, guard: str) -> str:
    """Why a row proves nothing; empty where it does."""
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
        return "no such test"
    named = {mutant.violation for mutant in MUTANTS if test in mutant.tests}
    if guard == NO_GUARD:
        return "a mutant names the test, the row does not" if named else ""
    return "" if guard in named else "no such mutant names the test"


def test_every_line_of_the_table_is_read() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert len(ROWS) == len(lines) - 2 > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['fault']}: {row['test'].rpartition('::')[2]}")
def test_a_row_names_a_test_and_the_mutant_that_it_kills(row: re.Match[str]) -> None:
    assert complaint(row["test"], row["guard"]) == ""


def test_a_row_that_proves_nothing_is_found() -> None:
    test = "tests/orchestrator/test_stop.py::test_a_signal_asks_once_and_the_second_ends_at_once"
    assert complaint("tests/orchestrator/test_stop.py::test_nothing", NO_GUARD) == "no such test"
    assert complaint(test, NO_GUARD) == "a mutant names the test, the row does not"
    assert complaint(test, "a guard that nobody has") == "no such mutant names the test"
