"""The page that lists what runs names only what exists, and no row of it is a promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from orchestrator import config

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| row |", "| --- |"))
]
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))
COMMANDS = sorted(set(re.findall(r"`(python (?:-m|bench)[^`]*)`", PAGE)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_has_a_command_and_a_test(row: list[str]) -> None:
    name, meaning, command, held = row
    assert name
    assert meaning
    assert "`python " in command
    assert "`tests/" in held
    assert not re.search(r"\b(planned|later|soon|to do)\b", " ".join(row))


@pytest.mark.parametrize("test", TESTS)
def test_a_named_test_exists(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assert name in found if name else found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_named_command_is_one(command: str) -> None:
    """Grids compose, views are files; the commands themselves are run by the tests of their packages."""
    words = command.split()
    if words[:3] == ["python", "-m", "orchestrator"]:
        assert config.load(words[3:]).run.name
    elif words[:3] == ["python", "-m", "analysis"]:
        if words[3] == "query":
            assert (ROOT / "sql" / "marts" / f"{words[4]}.sql").is_file()
        else:
            assert words[3] in ("census", "checks", "report", "seal", "verify", "diff", "gate", "cost")
    else:
        assert (ROOT / words[1]).is_file()
