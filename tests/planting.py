"""Putting a violation into the real path, and reading from the row what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workers import arms
from workers.bench import Bench
from workers.block import Work
from workers.engine import Engine, Handle
from workers.runner import BlockRunner
from workers.studies import get

Row = dict[str, Any]
VERDICTS = ("effect", "effect_status", "target_margin", "layer1")


def run(engine: Engine, work: Work, isolation: str = "class", *, decode_once: bool = False) -> dict[str, Row]:
    """Arm → the row that its trial would be."""
    [rows] = BlockRunner(engine, get("rollback"), isolation, decode_once=decode_once).run([work]).rows
    return {trial.arm: row for trial, row in zip(work.trials, rows, strict=True)}


def plant(monkeypatch: pytest.MonkeyPatch, name: str, prepare: Callable[[Bench], Handle]) -> None:
    """Put another treatment in the place of an arm, which goes on to claim what the arm claims."""
    honest = type(arms.get(name))
    planted = type("Planted", (honest,), {"prepare": lambda self, bench: prepare(bench)})
    monkeypatch.setitem(arms._registry(), name, planted())


def assert_refused(row: Row, *checks: str) -> None:
    """The row names exactly these checks, says why, and holds no verdict."""
    assert (row["status"], row["failed_checks"]) == ("invalid", ",".join(checks)), row["error"]
    assert all(f"{check}: " in row["error"] for check in checks)
    assert {verdict: row.get(verdict) for verdict in VERDICTS} == dict.fromkeys(VERDICTS)


def assert_all_refused(rows: dict[str, Row], *checks: str) -> None:
    """No arm of the episode is an observation."""
    for row in rows.values():
        assert_refused(row, *checks)


def other_statuses(rows: dict[str, Row], *arms: str) -> set[str]:
    """What became of all arms but these."""
    return {row["status"] for arm, row in rows.items() if arm not in arms}
