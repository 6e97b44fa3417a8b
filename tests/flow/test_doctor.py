"""`mode=doctor` is the real path killed at every step; what it looks for, it finds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from flow.project import Project

from orchestrator import doctor
from orchestrator.config_schema import ExecutorConfig
from orchestrator.doctor import FAULTS, Fault, Patient, wrongs

INLINE = ExecutorConfig(kind="inline")


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    """One that has recorded six cells."""
    made = Patient(tmp_path, INLINE)
    driver = made.start("limit=6")
    assert driver.communicate(timeout=60)[1] == ""
    assert driver.returncode == 0
    return made


def test_killed_at_every_step_and_by_two_drivers_nothing_is_lost_or_doubled(project: Project) -> None:
    before = sorted(project.folder.iterdir())
    run = project.run("mode=doctor", "executor=inline")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "108 rows of 108 cells\nsound" in run.stdout
    assert run.stdout.count("driver was killed") == len(FAULTS)
    assert sorted(project.folder.iterdir()) == before


def test_a_healthy_store_is_not_accused(patient: Patient) -> None:
    assert len(patient.recorded()) == 6
    assert list(wrongs(patient, patient.expected())) == []
    assert patient.left_behind() == {}


def test_a_doubled_a_foreign_and_a_damaged_row_are_seen(patient: Patient) -> None:
    expected, held = patient.expected(), sorted(patient.recorded())
    assert list(wrongs(patient, expected - {held[0]})) == [f"a row from nowhere: {held[0][0]} draw 0"]
    part = next(path for path in patient.store.trials("rollback").iterdir() if "empty" not in path.name)
    twin = part.with_name("part-twin.parquet")
    shutil.copy(part, twin)
    assert sorted(wrongs(patient, expected)) == [f"2 rows of {cell} draw {draw}" for cell, draw in held]
    twin.write_bytes(part.read_bytes()[:-9])
    assert list(wrongs(patient, expected)) == [f"damaged: {twin}"]


def test_what_still_runs_is_seen(tmp_path: Path) -> None:
    patient = Patient(tmp_path, INLINE)
    driver = patient.start("limit=6")
    (left,) = patient.left_behind().items()
    assert left[0] == driver.pid
    assert "-m orchestrator" in left[1]
    driver.communicate(timeout=60)
    assert patient.left_behind() == {}


def test_a_kill_that_never_happened_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FAULTS", (Fault("driver", "nowhere", "where nobody comes by"),))
    found = list(doctor._rounds(Patient(tmp_path, INLINE)))
    assert [line.split(",")[0].partition(": the")[0] for line in found] == ["nowhere", "nowhere was never reached"]


def test_a_part_that_was_deleted_runs_again_and_nothing_else(patient: Patient) -> None:
    before = patient.recorded()
    part = next(path for path in patient.store.trials("rollback").iterdir() if "empty" not in path.name)
    part.unlink()
    assert patient.recorded() != before
    patient.start("limit=6").communicate(timeout=60)
    assert patient.recorded() == before


def test_an_agent_of_rays_that_looks_for_its_head_is_no_finding_and_a_worker_is(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = {
        1: "ray::DashboardAgent",
        2: "ray::RuntimeEnvAgent",
        3: "ray::Actor.run",
        4: "python -m orchestrator Agent",
    }
    monkeypatch.setattr(patient, "living", lambda: living)
    assert patient.left_behind() == {3: living[3], 4: living[4]}
