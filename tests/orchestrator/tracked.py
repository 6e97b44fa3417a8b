"""Runs for the tracker's tests to tell, here and in an interpreter of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.config_schema import TrackingConfig
from orchestrator.listener import Start
from orchestrator.tracking import Tracker
from workers.block import Receipt

ROOT = Path(__file__).parents[2]
DRIVER = """
import os, sys, time
from pathlib import Path
from orchestrator.config_schema import TrackingConfig
from orchestrator.listener import Start
from orchestrator.tracking import make_tracker
from workers.block import Receipt
told = make_tracker(TrackingConfig(kind="wandb", timeout_s=float(sys.argv[2])))
told.started(Start("run-1", "g", sys.argv[1], "inline", {"m": 1}, {}, {"m": 1}, {}))
told.block_done(Receipt("b", "m", 1, True, {"done": 1}, {}, {}, 0.1))
"""


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No login, no settings, nothing of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))


def start(store: Path, name: str = "run-1") -> Start:
    return Start(name, "default", str(store), "inline", {"m": 4}, {"m": 1}, {"m": 3}, {})


def receipt(num: int, model: str = "m") -> Receipt:
    statuses = {"done": 1} if num else {"error": 1}
    return Receipt(f"block-{num}", model, 1, True, statuses, {"stale": 1} if num else {}, {}, 0.5)


def tracker(warnings: list[str], timeout_s: float = 30, limit: int = 1000, **asked: object) -> Tracker:
    config = TrackingConfig(kind="wandb", timeout_s=timeout_s)
    return Tracker(config, asked, warnings.append, interval_s=0, limit=limit)


def ran(told: Tracker, store: Path, name: str = "run-1") -> float:
    """Tell three blocks; the longest that any call took."""
    calls = [
        lambda: told.started(start(store, name)),
        *(lambda n=n: told.block_done(receipt(n)) for n in range(3)),
    ]
    times = []
    for call in calls:
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return max(times)


def drive(end: str, store: Path, path: str = "", timeout_s: float = 2) -> tuple[int, float, str]:
    before = time.monotonic()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER + end, str(store), str(timeout_s)],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.returncode, time.monotonic() - before, done.stdout + done.stderr
