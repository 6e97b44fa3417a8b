"""The same command again runs exactly what is missing, after any death and after any edit."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from flow.project import Project, kill, wait_for, worker_processes

RAY = ("model=slow", "executor=ray", "executor.slots=2", "block_episodes=1")


def test_the_second_run_of_a_grid_executes_no_cell(project: Project) -> None:
    """lmms-eval#1378: a cache that had always been empty went unnoticed."""
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


def after_the_first_part(slow: Project, process: Any) -> None:
    wait_for(slow.parts, process)


@pytest.mark.parametrize("victims", ["driver", "worker", "both"])
def test_a_kill_in_the_middle_loses_and_doubles_nothing(
    slow: Project, undisturbed: list[tuple[Any, ...]], victims: str
) -> None:
    """lm-evaluation-harness#2533, lighteval#880: resume after a kill, with no flag."""
    driver = slow.start("tracking=off", *RAY)
    after_the_first_part(slow, driver)
    workers = worker_processes(driver)
    assert workers
    if victims in ("worker", "both"):
        workers[0].kill()
    if victims in ("driver", "both"):
        kill(driver)
        committed = len(slow.parts())
        assert committed < 18
    else:
        out, err = driver.communicate(timeout=120)
        assert driver.returncode == 0, out + err
    again = slow.run(*RAY)
    assert again.returncode == 0, again.stderr
    assert slow.sealed() == undisturbed
    assert slow.query("select count(*), count(distinct (cell_id, draw)) from trials_all") == [(108, 108)]
    by_run = dict(slow.query("select run_id, count(*) from trials_all group by run_id"))
    # A worker may commit one more block in the moment between the driver's death and its own.
    assert len(by_run) == (1 if victims == "worker" else 2)
    if victims != "worker":
        assert 0 < by_run[max(by_run)] <= 108 - 6 * committed


def test_ctrl_c_ends_at_the_next_commit_and_says_so(slow: Project, undisturbed: list[tuple[Any, ...]]) -> None:
    driver = slow.start("tracking=off", *RAY)
    after_the_first_part(slow, driver)
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=120)
    assert driver.returncode == 3, out + err
    assert "interrupted" in out
    assert slow.query("select count(*) from missing_trials where reason = 'interrupted'")[0][0] > 0
    assert slow.run(*RAY).returncode == 0
    assert slow.sealed() == undisturbed


def test_adding_an_arm_runs_only_that_arm(project: Project) -> None:
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
    edited = "study.texts.carriers.neutral=In March {target} had the file, it seems."
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
    assert [run.stdout.split(" trials run")[0].splitlines()[-1] for run in runs] == ["36", "6", "12", "0"]
    assert project.query("select count(*) from trials") == [(36,)]


def test_a_damaged_part_is_set_aside_and_its_trials_run_again(project: Project) -> None:
    base = ("model=scripted", "executor=inline")
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
