"""A process that dies, a disk that is full and a worker that comes back: at each step of a commit."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers import faults, parquet
from workers.block import Block, Job
from workers.errors import StoreError
from workers.store import Store
from workers.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
TABLE = pa.table({"a": [1, 2], "b": ["x", "y"]})
COMMIT = """
import sys, pyarrow as pa
from pathlib import Path
from workers import parquet
parquet.commit(Path(sys.argv[1]), "n", pa.table({"a": [1, 2], "b": ["x", "y"]}))
"""


def commit_in_a_process(folder: Path, fault: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), faults.VARIABLE: fault}
    return subprocess.run([sys.executable, "-c", COMMIT, str(folder)], env=environment, check=False).returncode


@pytest.mark.parametrize(
    ("step", "is_there"),
    [("asked", False), ("torn", False), ("written", False), ("linked", True), ("committed", True)],
)
def test_a_process_killed_at_a_step_of_a_commit_leaves_a_whole_part_or_none(
    tmp_path: Path, step: str, is_there: bool
) -> None:
    folder = tmp_path / "parts"
    fault = f"parts:{step}@{tmp_path / 'claim'}"
    assert commit_in_a_process(folder, fault) == -signal.SIGKILL
    found = parquet.parts(folder)
    assert len(found) == is_there
    assert all(parquet.read(path).equals(TABLE) for path in found)
    assert commit_in_a_process(folder, fault) == 0, "a fault strikes once"
    assert [parquet.read(path).equals(TABLE) for path in parquet.parts(folder)] == [True]


def test_a_point_that_is_not_armed_or_cannot_be_claimed_kills_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.VARIABLE, raising=False)
    faults.point("receipt")
    for armed in ("", "other@x", "receipt", "receipt@/no/such/folder/claim"):
        monkeypatch.setenv(faults.VARIABLE, armed)
        faults.point("receipt")


@pytest.mark.parametrize(
    ("owner", "step", "is_there"),
    [(pq, "write_table", False), (os, "fsync", False), (os, "link", False), (parquet, "_sync of the folder", True)],
)
def test_a_disk_that_is_full_at_a_step_of_a_commit_is_one_line_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, is_there: bool
) -> None:
    name, sync = step.split()[0], parquet._sync

    def full(*given: Any, **_: Any) -> None:
        if name == "_sync" and not given[0].is_dir():
            return sync(given[0])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, full)
        with pytest.raises(StoreError, match=r"No space left on device; free space"):
            parquet.commit(tmp_path, "n", TABLE)
        assert [path.name for path in tmp_path.iterdir()] == ["part-n.parquet"] * is_there
    assert parquet.commit(tmp_path, "n", TABLE) is not is_there
    assert [parquet.read(path).equals(TABLE) for path in parquet.parts(tmp_path)] == [True]


def test_a_zombie_that_commits_while_another_runs_its_block_doubles_nothing(
    job: Job,
    make_blocks: Callable[..., list[Block]],
    rows: Callable[[Job], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """semaprax#192. The zombie has written and not yet linked when the other begins; the other commits first."""
    block = make_blocks("where=strength == 'imperative' and vehicle == 'tool_return'")[0]
    link, other = parquet._link, []

    def late(beside: Path, final: Path) -> bool:
        monkeypatch.setattr(parquet, "_link", link)
        other.append(Worker(replace(job, run_id="other")).run(block))
        return link(beside, final)

    zombie = Worker(job)
    monkeypatch.setattr(parquet, "_link", late)
    assert not zombie.run(block).is_first
    assert other[0].is_first
    assert {row["run_id"] for row in rows(job)} == {"other"}
    assert len(rows(job)) == block.num_trials


def test_what_a_dead_writer_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    folder = store.trials("rollback")
    ages = {"dead": 25 * 3600, "living": 60, "from-the-future": -3600}
    for name, age_s in ages.items():
        left = folder / f"part-{name}.{name}.tmp"
        left.write_bytes(b"PAR1 half")
        os.utime(left, (time.time() - age_s,) * 2)
    before = parquet.parts(folder)
    store.prepare()
    assert sorted(path.name.split(".")[0] for path in folder.glob("*.tmp")) == ["part-from-the-future", "part-living"]
    assert parquet.parts(folder) == before
