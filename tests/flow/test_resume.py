"""The same command again runs exactly what is missing, after any edit."""

from __future__ import annotations

import re

from flow.project import Project


def test_the_second_run_of_a_grid_executes_no_cell(project: Project) -> None:
    """lmms-eval#1378: a cache that had always been empty went unnoticed.

    dagster#33059, dagster#15155, ray#42221: starting again is no work; what is known is used by any later run.
    """
    first = project.run("model=scripted", "executor=inline")
    parts = sorted(project.parts())
    second = project.run("model=scripted", "executor=inline")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "108 trials run" in first.stdout
    assert "0 trials run" in second.stdout
    assert sorted(project.parts()) == parts
    assert project.query(
        "select planned, done, missing from (select sum(planned) as planned, sum(done) as done, "
        "sum(missing) as missing from coverage)"
    ) == [(108, 108, 0)]


def test_adding_an_arm_runs_only_that_arm(project: Project) -> None:
    """evalscope#1416: after a resume only the new samples were counted."""
    base = ("model=scripted", "executor=inline")
    project.run(*base, "study.arms=[stale,cold]")
    added = project.run(*base, "study.arms=[stale,cold,fresh]")
    assert "18 trials run" in added.stdout
    assert project.query("select arm, count(*) from trials group by arm order by arm") == [
        ("cold", 18),
        ("fresh", 18),
        ("stale", 18),
    ]


def test_editing_one_carrier_runs_only_its_cells_and_the_old_ones_leave_trials(project: Project) -> None:
    base = ("model=scripted", "executor=inline")
    project.run(*base)
    edited = "study.texts.effects.send_message.carriers.neutral=In March {target} had the file, it seems."
    plan = project.run(*base, edited, "mode=plan")
    assert "36 cells have results that no longer apply: the episode changed: branch, carriers" in plan.stdout
    assert plan.returncode == 0
    assert "36 trials run" in project.run(*base, edited).stdout
    assert project.query("select count(*) from trials") == [(108,)]
    assert project.query("select count(*) from trials_all") == [(144,)]
    stale = project.query("select count(*) from trials where strength = 'neutral' and episode not like '%In March%'")
    assert stale == [(0,)]


def test_a_pair_of_edits_and_back_again_runs_each_cell_once(project: Project) -> None:
    """flow#509: amending must be tested as pairs of edits."""
    base = ("model=scripted", "executor=inline")
    runs = [
        project.run(*base, "study.arms=[stale,cold]"),
        project.run(*base, "study.arms=[stale,cold,fresh]", "study.levels.vehicle=[user_turn]"),
        project.run(*base, "study.arms=[cold,fresh]"),
        project.run(*base, "study.arms=[stale,cold]"),
    ]
    assert [re.findall(r"^(\d+) trials run;", run.stdout, re.MULTILINE) for run in runs] == [
        ["36"],
        ["6"],
        ["12"],
        ["0"],
    ]
    assert project.query("select count(*) from trials") == [(36,)]


def test_a_damaged_part_is_set_aside_and_its_trials_run_again(project: Project) -> None:
    base = ("model=scripted", "executor=inline", "block_episodes=2")
    project.run(*base)
    before = project.sealed()
    victim = project.parts()[0]
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    again = project.run(*base)
    assert "is damaged" in again.stderr
    assert "12 trials run" in again.stdout
    assert project.sealed() == before
    assert [path.read_bytes() for path in (project.store / "aside").iterdir()] == [content[: len(content) // 2]]
