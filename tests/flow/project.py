"""A user's folder: the command as they type it, and what the store then holds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow.parquet as pq
import pytest

from workers.schema import CORE
from workers.studies import get

REPOSITORY = Path(__file__).resolve().parents[2]
SEALED = [column.name for column in (*CORE, *get("rollback").columns) if column.is_sealed]
PATIENCE_S = 120
MARK = "RESIDUE_TEST_FOLDER"
"""In the environment of everything a project starts, so that what outlives its driver is found again."""


class Project:
    """One user's folder: their own model files, their store, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "results"
        self.conf = folder / "conf"
        self.started: list[subprocess.Popen[str]] = []
        (self.conf / "model").mkdir(parents=True)

    def add_model(self, name: str, text: str) -> None:
        """One more model file."""
        (self.conf / "model" / f"{name}.yaml").write_text(text)

    def start(self, *overrides: str) -> subprocess.Popen[str]:
        """The command, running."""
        arguments = [sys.executable, "-m", "orchestrator", "--config-dir", str(self.conf), *overrides]
        mark = {MARK: str(self.folder)}
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "WANDB_MODE": "offline", "COLUMNS": "200", **mark}
        process = subprocess.Popen(
            arguments, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.started.append(process)
        return process

    def run(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        """The command, ended."""
        process = self.start("tracking=off", *overrides)
        out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def end(self) -> None:
        """Kill whatever of this project still runs, so that it disturbs no other test."""
        for process in self.left_behind():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for started in self.started:
            kill(started)

    def left_behind(self) -> list[psutil.Process]:
        """Processes of this project that still run."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.folder):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the published views."""
        with duckdb.connect(str(self.store / "residue.duckdb"), read_only=True) as connection:
            return connection.execute(sql).fetchall()

    def sealed(self, view: str = "trials") -> list[tuple[Any, ...]]:
        """The sealed columns, row for row."""
        return self.query(f"select {', '.join(SEALED)} from {view} order by cell_id, draw")

    def parts(self) -> list[Path]:
        """Committed parts that hold trials."""
        found = (self.store / "trials" / "rollback").glob("part-*.parquet")
        return [path for path in found if pq.read_metadata(path).num_rows]


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """Poll until the condition holds; fail when the process ends first."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
        if process is not None and process.poll() is not None:
            out, err = process.communicate()
            pytest.fail(f"the run ended first: {process.returncode}\n{out}\n{err}")
        time.sleep(0.02)
    return pytest.fail("waited too long")


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and gone."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=PATIENCE_S)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def worker_processes(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    """The model slots' processes under a driver."""
    found = []
    for child in psutil.Process(driver.pid).children(recursive=True):
        try:
            if child.cmdline() and child.cmdline()[0].startswith("ray::Actor"):
                found.append(child)
        except psutil.Error:
            continue
    return found
