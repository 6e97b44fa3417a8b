"""Seal, diff and gate over what the command really records."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from editing import edited
from flow.project import PATIENCE_S, Project
from planting import plant

from analysis.__main__ import main as analyse
from orchestrator import grid
from orchestrator.__main__ import main

BASE = ("model=scripted", "executor=inline")


def sealed(store: Path) -> dict[str, Any]:
    assert analyse(["--store", str(store), "seal"]) == 0
    return json.loads((store / "seal.json").read_text())


def test_killed_resumed_and_cut_otherwise_a_run_has_the_root_of_an_undisturbed_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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


def test_a_real_store_tells_a_changed_effect_by_file_row_and_column(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A store of the smallest grid, run in this process by some version of the libraries."""

    def run(name: str, libraries: str = "transformers 5.24, torch 2.13") -> Path:
        monkeypatch.setattr(grid, "libraries", lambda: libraries)
        small = ["study.levels.strength=[imperative]", "study.levels.vehicle=[user_turn]"]
        store = tmp_path / name
        assert main(["--quiet", *BASE, "tracking=off", *small, f"store.root={store}"]) == 0
        return store

    return run


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = analyse([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_two_versions_of_a_library_are_one_result_until_one_of_them_restores_otherwise(
    ran: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = ran("old"), ran("new", "transformers 5.25, torch 2.13")
    code, found = asked(capsys, "diff", old, new)
    assert (code, found["num_equal"]) == (0, 12)
    assert found["joined_by"].startswith("model, texts")
    plant(monkeypatch, "truncate", lambda bench: bench.cropped(len(bench.split.committed_ids) + 1))
    broken = ran("broken", "transformers 5.26, torch 2.13")
    code, found = asked(capsys, "diff", new, broken)
    assert (code, found["num_equal"], found["num_differences"]) == (3, 10, 2)
    assert {(row["arm"], row["num_other_status"]) for row in found["arms"] if row["num_other_status"]} == {
        ("truncate", 2)
    }
    assert asked(capsys, "--store", old, "gate")[0] == 0
    code, found = asked(capsys, "--store", broken, "gate", "--against", old)
    assert code == 3
    assert ("invalid", "truncate") in {(one["reason"], one["arm"]) for one in found["reasons"]}


def test_the_gate_counts_the_flips_of_the_census(ran: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    store = ran("store")
    code, found = asked(capsys, "--store", store, "gate", "--arm", "stale")
    flips = {cell for one in found["reasons"] if one["reason"] == "flip" for cell in one["cells"]}
    query = "select cell_id || '/' || draw as cell from flips where arm = 'stale'"
    assert analyse(["--store", str(store), "sql", query, "--format", "json"]) == 0
    assert (code, flips) == (3, {row["cell"] for row in json.loads(capsys.readouterr().out)})
    assert flips
