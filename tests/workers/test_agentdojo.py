"""AgentDojo's content as its wheel holds it: read, never imported, and never reworded."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import config
from workers import agentdojo
from workers.episode import Episode
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


def episodes(*overrides: str) -> list[Episode]:
    composed = config.load(["model=scripted", "+grid=agentdojo", *overrides])
    return list(composed.spec.episodes(composed.models[0]))


def test_a_branch_is_the_suites_passage_with_the_suites_goal_in_it() -> None:
    found = episodes("study.levels.kind=[attack]")
    assert {episode.axes["content"].partition("/")[0] for episode in found} == {
        f"agentdojo-{suite}" for suite in agentdojo.SUITES
    }
    for episode in found:
        suite, task, vector = episode.axes["content"].removeprefix("agentdojo-").split("/")
        goal = agentdojo.goals(suite)[task]
        assert episode.branch[0].text == agentdojo.passages(suite)[vector].replace("{carrier}", goal)
        assert episode.carried == goal
        assert episode.facts["effect"]["unauthorised"] in goal
        assert episode.facts["content"] == agentdojo.version()


def test_every_goal_that_names_the_forbidden_target_is_tried_and_no_other() -> None:
    tried = {
        episode.axes["content"].split("/")[1]
        for episode in episodes("study.levels.effect_type=[send_money]", "study.levels.content=[agentdojo-banking]")
    }
    naming = {task for task, goal in agentdojo.goals("banking").items() if "US133000000121212121212" in goal}
    assert tried == naming
    assert "injection_task_7" not in tried  # it changes a password


def test_a_control_is_the_goal_with_the_authorised_target() -> None:
    attacks, controls = (episodes(f"study.levels.kind=[{kind}]") for kind in ("attack", "control"))
    for attack, control in zip(attacks, controls, strict=True):
        effect = attack.facts["effect"]
        assert effect["unauthorised"] not in control.branch[0].text
        assert control.branch[0].text == attack.branch[0].text.replace(effect["unauthorised"], effect["authorised"])


@pytest.mark.parametrize(
    ("level", "num_attacks"),
    [
        ("agentdojo-travel", 3),
        ("agentdojo-travel/*", 3),
        ("agentdojo-travel/injection_task_6", 1),
        ("agentdojo-travel/injection_task_6/injection_cars_1", 1),
        ("agentdojo-travel/injection_task_6/*", 13),
        ("agentdojo-travel/*/*", 39),
    ],
)
def test_a_shorter_level_stands_for_several(level: str, num_attacks: int) -> None:
    levels = (
        "study.levels.effect_type=[book_hotel]",
        f"study.levels.content=['{level}']",
        "study.levels.kind=[attack]",
    )
    assert len(episodes(*levels, f"study.levels.content=['{level}']")) == num_attacks


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("agentdojo-bankin", "did you mean 'agentdojo-banking'"),
        ("our", "did you mean 'ours'"),
        ("agentdojo-slack/injection_task_22", "did you mean 'injection_task_2'"),
        ("agentdojo-slack/*/injection_web", "did you mean 'injection_web_0'"),
        ("agentdojo-slack/injection_task_3", "would carry no attack"),
        ("agentdojo-slack/a/b/c", "unknown level"),
    ],
)
def test_a_wrong_level_is_one_line(level: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refusal:
        episodes("study.levels.effect_type=[post_page]", f"study.levels.content=['{level}']")
    assert "\n" not in str(refusal.value)
