"""wandb is told the truth and no secrets, and can hang, fail or be missing without the run noticing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.config_schema import TrackingConfig
from orchestrator.secrets import without_secrets
from orchestrator.tracking import make_tracker
from orchestrator.tracking.wandb import chosen_mode, run_id
from tests.orchestrator.tracked import drive, nobody, ran, receipt, start, tracker

__all__ = ["nobody"]
HANGS = "import time\ntime.sleep(600)\n"
OPENS = """
from types import SimpleNamespace
class Settings:
    model_fields = ()
    api_key = None
    base_url = "https://api.wandb.ai"
class Run:
    settings = SimpleNamespace(sync_dir="/fake", mode="offline")
    summary = {}
    def log(self, values): pass
    def finish(self, exit_code): pass
def setup(): return SimpleNamespace(settings=Settings)
def init(**_): return Run()
def Table(**_): pass
def teardown(): pass
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put another wandb in front of the real one."""

    def put(source: str) -> Path:
        folder = tmp_path / "fake"
        folder.mkdir()
        (folder / "wandb.py").write_text(source)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return put


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "raise ModuleNotFoundError('No module named wandb')",
            "lost everything (ModuleNotFoundError: No module",
        ),
        (OPENS + "def init(**_): raise RuntimeError('no\\nroom')", "lost everything (RuntimeError: no room)"),
        (OPENS + "def init(**_): raise SystemExit(3)", "lost everything (SystemExit: 3)"),
        ("import os; os._exit(1)", "lost everything (the wandb process ended early)"),
        (
            OPENS + "def crash(*_): raise ValueError('x')\nRun.log = crash",
            "lost metrics, census (ValueError: x)",
        ),
        (
            OPENS + "import os\nRun.finish = lambda *_, **__: os._exit(1)",
            "lost the last updates and the census (",
        ),
        (
            OPENS + "import time\nRun.finish = lambda *_, **__: time.sleep(60)",
            "not finished within 3 s",
        ),
        (OPENS + "import time\nRun.log = lambda *_: time.sleep(60)", "not finished within 3 s"),
        (HANGS, "not finished within 3 s"),
        (
            OPENS + "print('WANDB' * 9999, flush=True)\nimport atexit, time\natexit.register(time.sleep, 60)",
            None,
        ),
    ],
)
def test_a_broken_wandb_costs_one_line(tmp_path: Path, fake, source: str, said: str | None) -> None:
    warnings: list[str] = []
    fake(source)
    timeout_s = 3 if said and "not finished" in said else 20  # a busy machine is slow to start a process
    told = tracker(warnings, timeout_s=timeout_s)
    assert ran(told, tmp_path) < 1
    before = time.monotonic()
    told.close((["a"], [[1]]), {})
    assert time.monotonic() - before < timeout_s + 2
    if said is None:
        assert warnings == []
        return
    (warning,) = warnings
    assert said in warning or "this run is not tracked" in warning
    assert "\n" not in warning


def test_a_full_queue_drops_and_counts(tmp_path: Path, fake) -> None:
    """warprec#127, wandb#5445: a slow or limited tracker blocked a run."""
    warnings: list[str] = []
    fake(HANGS)
    told = tracker(warnings, timeout_s=0.5, limit=2)
    told.started(start(tmp_path))
    for num in range(50):
        told.block_done(receipt(num))
    told.close()
    assert warnings == [
        "wandb: lost 48 of 50 updates and everything (not finished within 0.5 s); "
        "the store holds the results all the same"
    ]


def processes(word: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = word.encode() in (place / "environ").read_bytes() and (place / "cmdline").read_bytes()
        except OSError:
            continue
        if is_ours and place.name != str(os.getpid()):
            found.append(place.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("end", ["told.close()\nraise SystemExit(7)", "raise SystemExit(7)", "os._exit(7)"])
def test_a_hung_wandb_lets_the_interpreter_go(tmp_path: Path, fake, end: str) -> None:
    """warprec#127."""
    folder = fake(HANGS)
    code, wall_s, said = drive(end, tmp_path, str(folder))
    assert code == 7
    assert wall_s < 15
    assert said.count("\n") == ("close" in end)
    deadline = time.monotonic() + 15
    while processes(str(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(str(folder)) == []


@pytest.mark.parametrize(("name", "value"), [("WANDB_DISABLED", "true"), ("WANDB_MODE", "disabled")])
def test_the_environment_can_silence_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with tracker([]) as told:
        ran(told, tmp_path)
    assert told.folder is None
    assert not (tmp_path / "wandb").exists()


def test_off_does_nothing(tmp_path: Path) -> None:
    with make_tracker(TrackingConfig(kind="off")) as told:
        ran(told, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_mode_follows_environment_then_config_then_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimpleNamespace(api_key=None, base_url="https://api.wandb.ai")
    assert chosen_mode("auto", settings) == "offline"
    assert chosen_mode("online", settings) == "online"
    (tmp_path / "none").write_text("machine api.wandb.ai login user password hunter2\n")
    assert chosen_mode("auto", settings) == "online"
    assert chosen_mode("offline", settings) == "offline"
    monkeypatch.setenv("WANDB_MODE", "dryrun")
    assert chosen_mode("online", settings) == "offline"


def test_secrets_are_left_out_and_settings_are_kept() -> None:
    kept = {"max_new_tokens": 32, "tokenizer": "x", "keyboard": "y", "entity": None, "list": [{"a": 1}]}
    secret = dict.fromkeys(["token", "API_KEY", "apiKey", "secretThing", "passwords", "key", "my-credential"], "x")
    assert without_secrets({**kept, **secret, "deep": [secret], "pin_password": 1}) == {**kept, "deep": [{}]}
    assert without_secrets("hf_abcdefgh1234 and https://u:p@h/x") == "*** and https://***@h/x"


def test_ids_are_safe_and_distinct() -> None:
    """wandb#2858: a run that is synced twice is one run where its id is fixed."""
    assert run_id("20260101-ab.c_1") == "20260101-ab.c_1"
    ids = {run_id(name) for name in ["a/b", "a:b", "a-b", "x" * 70, "x" * 71]}
    assert len(ids) == 5
    assert all(len(name) <= 64 and "/" not in name for name in ids)
