"""Seal, diff and gate over what the command really records."""

from __future__ import annotations

import json
import signal

import pyarrow.parquet as pq
from editing import edited
from flow.project import PATIENCE_S, Project

from analysis.__main__ import main as analyse

BASE = ("model=scripted", "executor=inline")


def sealed(store) -> dict:
    assert analyse(["--store", str(store), "seal"]) == 0
    return json.loads((store / "seal.json").read_text())


def test_killed_resumed_and_cut_otherwise_a_run_has_the_root_of_an_undisturbed_one(
    project, monkeypatch, capsys
) -> None:
    undisturbed, other = project.folder / "undisturbed", project.folder / "other"
    assert project.run(*BASE, f"store.root={undisturbed}").returncode == 0
    monkeypatch.setenv("RESIDUE_FAULT", f"trials:written@{project.folder / 'killed'}")
    driver = project.start("tracking=off", *BASE, f"store.root={other}", "block_episodes=1", "where=kind == 'control'")
    driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == -signal.SIGKILL
    for more in (["block_episodes=1", "where=kind == 'control'"], ["isolation=strict", "block_episodes=5"]):
        assert project.run(*BASE, f"store.root={other}", *more).returncode == 0
    assert sealed(undisturbed)["root"] == sealed(other)["root"]
    assert analyse(["--store", str(other), "verify", "--seal", str(undisturbed / "seal.json")]) == 0
    assert "the same result in other files: 108 trials" in capsys.readouterr().out


def test_a_real_store_tells_a_changed_effect_by_file_row_and_column(project: Project, capsys) -> None:
    project.run(*BASE, "block_episodes=3")
    sealed(project.store)
    assert analyse(["--store", str(project.store), "verify"]) == 0
    part = next(path for path in project.parts() if "fresh" in pq.read_table(path)["arm"].to_pylist())
    row = edited(part, {"arm": "fresh"}, effect="send_message(red-canary)")
    capsys.readouterr()
    assert analyse(["--store", str(project.store), "verify"]) == 3
    said = capsys.readouterr().out
    assert f"{row['cell_id']}/0 (scripted, fresh, {row['surface']}" in said
    assert f": changed in effect, in trials/rollback/{part.name}\n" in said
