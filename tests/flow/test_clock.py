"""A clock that steps backwards between runs, or in one, decides nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from orchestrator import command, ledger
from orchestrator.command import main
from workers import rows

SAID = ["model=scripted", "executor=inline", "tracking=off", "--quiet"]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set every clock of ours to a year."""

    def turn(year: int) -> None:
        class Clock(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> Clock:  # type: ignore[override]
                return cls(year, 1, 1, tzinfo=tz)

        for module in (command, ledger, rows):
            monkeypatch.setattr(module, "datetime", Clock)

    return turn


def test_the_latest_run_is_the_latest_whatever_the_clock_says(
    at: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    at(2030)
    assert main([*SAID, "limit=12"]) == 0
    at(2020)
    assert main([*SAID, "study.arms=[stale,cold]"]) == 0
    with duckdb.connect(str(tmp_path / "results" / "residue.duckdb"), read_only=True) as views:
        arms = views.sql("select distinct arm from trials order by arm").fetchall()
        (num_rows, num_trials) = views.sql("select count(*), count(distinct (cell_id, draw)) from trials").fetchall()[0]
        missing = views.sql("select count(*) from missing_trials").fetchall()
    assert arms == [("cold",), ("stale",)], "the plan of the second run"
    assert (num_rows, num_trials, missing) == (36, 36, [(0,)])
    assert main([*SAID, "study.arms=[stale,cold]"]) == 0
    with duckdb.connect(str(tmp_path / "results" / "residue.duckdb"), read_only=True) as views:
        assert views.sql("select count(*) from trials_all").fetchall() == [(12 + 32,)], "nothing ran again"
