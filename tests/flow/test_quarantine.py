"""A cell that no worker survives, on real Ray: it alone is an error, and it can be re-opened."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator import config, run
from orchestrator.executors.ray import RayExecutor
from orchestrator.ledger import check_writable
from orchestrator.run import Result, carry_out, prepare
from tests.orchestrator.executors.poisoned import ARM, Poisoned
from workers import parquet
from workers.store import Store

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

EPISODE = "where=vehicle == 'tool_return' and strength == 'imperative' and kind == 'attack'"


def go(root: Path, number: int, *more: str) -> Result:
    said = ["model=scripted", "tracking=off", f"store.root={root}", "hang_s=3", "executor.slots=1", EPISODE, *more]
    prepared = prepare(config.load(said))
    check_writable(prepared.store)
    return carry_out(prepared, f"run-{number}", ["orchestrator"], [])


def rows(root: Path) -> list[dict[str, Any]]:
    folder = Store(root).trials("rollback")
    return [row for part in parquet.parts(folder) for row in parquet.read(part).to_pylist()]


@pytest.mark.parametrize(("how", "failure"), [("die", "lost"), ("hang", "hung"), ("break", "bug")])
def test_a_cell_that_no_worker_survives_is_an_error_alone_until_it_is_reopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, failure: str
) -> None:
    """ray#57140: rows that failed could not be told from the others; each says its class and reason."""
    monkeypatch.setattr(run, "make_executor", lambda _: RayExecutor(slots=1, cpus=2, worker=Poisoned))
    root, poison = tmp_path / "results", tmp_path / "poison"
    poison.write_text(how)
    found = go(root, 1)
    assert (found.statuses, found.missing) == ({"done": 5, "error": 1}, {})
    assert not found.is_complete
    (error,) = (row for row in rows(root) if row["status"] == "error")
    assert (error["arm"], error["failure"]) == (ARM, failure)
    assert f"{error['attempts']} times" in error["error"]
    assert ("ZeroDivisionError: planted" in (error["traceback"] or "")) is (how == "break")

    poison.unlink()
    assert go(root, 2).num_run == 0, "what is given up is not tried again by itself"
    again = go(root, 3, "retry=error")
    assert (again.num_run, again.statuses, again.is_complete) == (1, {"done": 6}, True)
    counts = Counter((row["status"], row["generation"]) for row in rows(root))
    assert counts == {("done", 0): 5, ("error", 0): 1, ("done", 1): 1}
