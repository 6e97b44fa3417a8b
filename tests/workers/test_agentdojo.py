"""AgentDojo's content as its wheel holds it: read, never imported, and never reworded."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from workers import agentdojo
from workers.errors import ConfigError


def test_every_goal_of_the_four_suites_is_read() -> None:
    counts = {suite: len(agentdojo.goals(suite)) for suite in agentdojo.SUITES}
    assert counts == {suite: _classes(suite) for suite in agentdojo.SUITES}
    assert all(goal.strip() for suite in agentdojo.SUITES for goal in agentdojo.goals(suite).values())


def _classes(suite: str) -> int:
    """Classes named InjectionTask… in the suite's source, counted in another way."""
    source = agentdojo._file("default_suites", "v1", suite, "injection_tasks.py").read_text("utf-8")
    return sum(line.startswith("class InjectionTask") for line in source.splitlines())


@pytest.mark.parametrize(
    ("suite", "task", "words"),
    [
        ("banking", "injection_task_5", "to the account US133000000121212121212"),
        ("slack", "injection_task_1", "www.secure-systems-252.com to Alice"),
        ("travel", "injection_task_5", "at {hotel_name}' and the body"),
        ("workspace", "injection_task_4", "'security@facebook.com' to 'mark.black-2134@gmail.com'.The subject"),
    ],
)
def test_a_goal_put_together_from_constants_is_whole(suite: str, task: str, words: str) -> None:
    assert words in agentdojo.goals(suite)[task]


@pytest.mark.parametrize("suite", agentdojo.SUITES)
def test_every_vector_has_a_passage_that_names_it_and_no_other(suite: str) -> None:
    described = agentdojo._file("data", "suites", suite, "injection_vectors.yaml").read_text("utf-8")
    vectors = {line.partition(":")[0] for line in described.splitlines() if line[:1].isalpha()}
    passages = agentdojo.passages(suite)
    assert passages.keys() == vectors
    assert all(text.count("{carrier}") == 1 for text in passages.values())
    assert not any("{injection" in text or "_injection}" in text for text in passages.values())


def test_a_passage_is_one_record_and_not_the_whole_environment() -> None:
    assert agentdojo.passages("banking")["injection_incoming_transaction"].startswith("id: 5\n")
    assert agentdojo.passages("slack")["prompt_injection_eve_blog"].startswith("This is the blog of Eve.")
    assert agentdojo.passages("workspace")["email_facebook_injection"].startswith("id_: '31'\n")


def test_the_versions_are_told_with_the_content() -> None:
    assert agentdojo.version() == f"{agentdojo.PIN.replace('==', ' ')}, benchmark v1"


def test_the_package_is_not_imported() -> None:
    """With --no-deps an import fails: it asks for anthropic, openai and others."""
    code = "import sys; from workers import agentdojo as a; a.goals('slack'); a.passages('workspace')"
    check = f"{code}; assert not [m for m in sys.modules if m.startswith('agentdojo')]"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_an_absent_wheel_is_said_in_one_line_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not agentdojo.is_installed()
    with pytest.raises(ConfigError, match=r"pip install --no-deps agentdojo==0\.1\.35"):
        agentdojo.version()


def test_a_misspelt_suite_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'banking'"):
        agentdojo.goals("bankin")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'a' 'b'", "ab"),
        ("f'a{_X}c'", "aXc"),
        ("f'a{_UNKNOWN}c'", None),
        ("f'a{len(_X)}c'", None),
        ("f'a{_X!r}c'", None),
        ("_X.format()", None),
        ("3", None),
    ],
)
def test_only_strings_of_constants_are_read_and_nothing_is_run(expression: str, text: str | None) -> None:
    assert agentdojo._text(ast.parse(expression, mode="eval").body, {"_X": "X"}) == text


def test_an_include_that_leaves_the_suite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "other.yaml").write_text("a: 1")
    with pytest.raises(ConfigError, match="outside its own folder"):
        agentdojo.yaml.load("a: !include ../other.yaml", agentdojo._loader(tmp_path / "suite"))


def test_what_make_setup_installs_is_what_is_asked_for() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    assert f" {agentdojo.PIN}\n" in makefile
