"""The table of mutants keeps up with the code: each guard stands where it says, and each named check has one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r'(?:IsolationError\(\s*|yield )"(\w+)", ')
"""Where a check's name is written beside what it found."""


def check_of(mutant: Mutant) -> set[str]:
    """The check that the guard leads to: the first that is named after it."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    found = NAMED.search(text, text.index(mutant.guard))
    return {found[1]} if found else set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.violation)
def test_a_guard_stands_once_and_its_tests_exist(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.guard) == 1
    changed = source.replace(mutant.guard, mutant.removal)
    assert changed != source
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    for test in mutant.tests:
        path, name = test.split("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_two_mutants_are_alike() -> None:
    assert len({mutant.violation for mutant in MUTANTS}) == len(MUTANTS)


def test_every_named_check_has_a_mutant() -> None:
    named = {name for path in (ROOT / "workers").rglob("*.py") for name in NAMED.findall(path.read_text("utf-8"))}
    assert len(named) > 10
    assert named - {name for mutant in MUTANTS for name in check_of(mutant)} == set()
