"""`SECURITY.md` promises what a test proves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")][2:]
TEST = re.compile(r"\| `(tests/[^`|]+)::(test_\w+)` \|$")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[1].strip())
def test_a_promise_names_a_test_that_is_there(line: str) -> None:
    found = TEST.search(line)
    assert found, line
    tree = ast.parse((ROOT / found[1]).read_text(encoding="utf-8"))
    assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_door_has_a_promise() -> None:
    assert len(LINES) > 12
