"""The command speaks whatever its streams are: narrow, closed, full or of an odd encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from analysis.terminal import console
from orchestrator import config, preview
from orchestrator.run import Prepared, prepare
from tests.orchestrator.unions import write_all

ROOT = Path(__file__).parents[2]
COMMAND = f'"{sys.executable}" -m orchestrator model=scripted executor=inline tracking=off'


def shell(folder: Path, line: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{COMMAND} mode=plan >/dev/full", "error: cannot write to standard output: No space left on device"),
        (f"{COMMAND} mode=plan >&-", "error: standard output is closed"),
        (f"{COMMAND} --config-dir", "error: argument --config-dir: expected one argument; try --help"),
        (rf"{COMMAND} 'store.root=a\b'", "error: DuckDB reads no folder with a backslash in its name"),
        (f"{COMMAND} store.root=~no-such-user/x", "error: the store '~no-such-user/x' leads nowhere"),
    ],
)
def test_what_cannot_be_said_or_done_is_one_line(tmp_path: Path, line: str, said: str) -> None:
    done = shell(tmp_path, line)
    assert done.returncode == 1
    (only,) = done.stderr.splitlines()
    assert only.startswith(said)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    assert shell(tmp_path, f"{COMMAND} mode=plan | true").returncode == 0


def test_a_run_ends_well_in_an_encoding_without_its_characters_and_says_where_to_look(tmp_path: Path) -> None:
    done = shell(tmp_path, f"{COMMAND} 'store.root=a é' 'study.arms=[stale]'", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert rf"python -m analysis --store '{tmp_path}/a \xe9' census" in done.stdout
    assert "flips in the latest plans: not judged" in done.stdout


def test_flips_whose_reference_is_of_an_earlier_run_are_told(tmp_path: Path) -> None:
    shell(tmp_path, f"{COMMAND} 'study.arms=[cold]'")
    resumed = shell(tmp_path, f"{COMMAND} 'study.arms=[cold,stale]'")
    assert "flips in this run: not judged" in resumed.stdout
    assert "flips in the latest plans: stale 9" in resumed.stdout


def previewed(prepared: Prepared, width: int) -> str:
    out = Console(width=width)
    with out.capture() as captured:
        preview.show(out, prepared, Counter())
    return captured.get()


def test_a_narrow_terminal_cuts_no_number(tmp_path: Path) -> None:
    prepared = prepare(config.load(["model=scripted", f"store.root={tmp_path / 'none'}"]))
    assert console().width >= 100
    shown = previewed(replace(prepared, num_errors=3), 100)
    assert "│     108 │    108 │" in shown
    assert "3 of those recorded are errors: retry=error runs them again" in shown


def test_eighty_columns_hold_the_plan_of_the_largest_grid(tmp_path: Path) -> None:
    """Its tables; a reason is one line, however long."""
    shown = previewed(prepare(config.load(["+grid=full", f"store.root={tmp_path / 'none'}"])), 80)
    table = [line for line in shown.splitlines() if line.startswith("│")]
    assert table
    assert all(len(line) <= 80 and line.endswith("│") for line in table)


def test_the_plan_of_a_union_counts_its_parts_and_says_what_is_left_out(tmp_path: Path) -> None:
    """hydra#2759: a dry run."""
    folder = write_all(tmp_path)
    not_run = "not_run=[{what: appendix N, why: needs vLLM}]"
    composed = config.load(["parts=[narrow,lean]", not_run, f"store.root={tmp_path / 'none'}"], folder)
    shown = previewed(prepare(composed), 80)
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line.startswith("│")
    ]
    assert [row[:6] for row in rows[1:]] == [["narrow", "1", "3", "2", "6", "6"], ["lean", "1", "9", "6", "54", "54"]]
    assert "excluded: lean: 54 cells: controls are elsewhere" in shown
    assert "not run: appendix N: needs vLLM" in shown
    assert "54 trials planned: 54 to run" in shown
    assert "tokens to process, about (4 characters each, every trial by itself): to run " in shown
