"""Whatever dies in the middle of a run on Ray, the same command brings the store to the undisturbed end."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from flow.project import REPOSITORY, Project, kill, wait_for, worker_processes

RAY = ("model=slow", "executor=ray", "executor.slots=2", "block_episodes=1")


def after_the_first_part(slow: Project, process: Any) -> None:
    wait_for(slow.parts, process)


@pytest.mark.parametrize("victims", ["driver", "worker", "both"])
def test_a_kill_in_the_middle_loses_and_doubles_nothing(
    slow: Project, undisturbed: list[tuple[Any, ...]], victims: str
) -> None:
    """lm-evaluation-harness#2533, lighteval#880: resume after a kill, with no flag.

    lm-evaluation-harness#2548, lmms-eval#852, vllm#52505: results that were written at the end only. ray#61047:
    once, strictly. ray-enhancements#75: the driver is disposable.
    """
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


def test_two_models_in_one_store_killed_and_resumed_by_eight_workers(project: Project) -> None:
    text = (REPOSITORY / "conf" / "model" / "scripted.yaml").read_text()
    for name in ("one", "other"):
        project.add_model(name, text.replace("scripted", "scripted\n  decode_ms: 40").replace("cpus: 1", "cpus: 0.2"))
    said = ("model=[one,other]", "executor=ray", "block_episodes=1")
    driver = project.start("tracking=off", *said, "executor.slots=2")
    after_the_first_part(project, driver)
    kill(driver)
    again = project.run(*said, "executor.slots=8")
    assert again.returncode == 0, again.stderr
    assert project.query("select model, count(*) from trials group by model order by model") == [
        ("one", 108),
        ("other", 108),
    ]
    assert project.query("select count(*), count(distinct (cell_id, draw)) from trials_all") == [(216, 216)]


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
