"""wandb is told the truth and no secrets, and can hang, fail or be missing without the run noticing."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.config import TrackingConfig
from orchestrator.listener import Start
from orchestrator.tracking import Tracker, make_tracker
from orchestrator.tracking.secrets import without_secrets
from orchestrator.tracking.wandb import chosen_mode, run_id
from workers.block import Receipt

ROOT = Path(__file__).parents[2]
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
"""


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No login, no settings, nothing of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))


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


def start(store: Path, name: str = "run-1") -> Start:
    return Start(name, "default", str(store), "inline", {"m": 4}, {"m": 1}, {"m": 3}, {})


def receipt(num: int, model: str = "m") -> Receipt:
    statuses = {"done": 1} if num else {"error": 1}
    return Receipt(f"block-{num}", model, 1, True, statuses, {"stale": 1} if num else {}, None, 0.5)


def tracker(warnings: list[str], timeout_s: float = 30, limit: int = 1000, **asked: object) -> Tracker:
    config = TrackingConfig(kind="wandb", timeout_s=timeout_s)
    return Tracker(config, asked, warnings.append, interval_s=0, limit=limit)


def ran(told: Tracker, store: Path, name: str = "run-1") -> float:
    """Tell three blocks; the longest that any call took."""
    calls = [lambda: told.started(start(store, name)), *(lambda n=n: told.block_done(receipt(n)) for n in range(3))]
    times = []
    for call in calls:
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return max(times)


def records(folder: Path) -> list:
    """Every record of a run's file: LevelDB's log format, blocks of 32 KiB, under a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("*.wandb")
    data, place, whole, found = path.read_bytes(), 7, b"", []
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        size, part = struct.unpack("<HB", data[place + 4 : place + 7])
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if part in (1, 4):
            found.append(wandb_internal_pb2.Record.FromString(whole))
            whole = b""
    return found


def key_of(item) -> str:
    return item.key or "/".join(item.nested_key) if len(item.nested_key) != 1 else item.nested_key[0]


def history(folder: Path) -> list[dict]:
    rows = [record.history for record in records(folder) if record.WhichOneof("record_type") == "history"]
    return [{key_of(item): json.loads(item.value_json) for item in row.item} for row in rows]


def summary(folder: Path) -> dict:
    rows = [record.summary for record in records(folder) if record.WhichOneof("record_type") == "summary"]
    return {key_of(item): json.loads(item.value_json) for row in rows for item in row.update}


def run_record(folder: Path):
    return next(record.run for record in records(folder) if record.WhichOneof("record_type") == "run")


def test_an_offline_run_reads_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    warnings: list[str] = []
    told = tracker(warnings, max_new_tokens=32, store={"hub_token": "hunter2", "url": "s3://me:hunter2@b"})
    ran(told, tmp_path / "store")
    told.slot_ready("m", "cpu", 1.0)
    told.close((["model", "flips"], [["m", 2], ["é", None]]), {"flips/stale": 7})

    assert warnings == []
    assert told.folder is not None
    assert told.folder.parent == tmp_path / "store" / "wandb"
    points = [row for row in history(told.folder) if "trials/done" in row]
    assert [row["trials/done"] for row in points] == [1, 2, 3, 3]
    assert [row.get("flips/stale") for row in points] == [None, 1, 2, 2]
    assert [row["done/m"] for row in points] == [2, 3, 4, 4]
    assert points[-1]["trials/error"] == 1
    assert points[-1]["trials/per_minute"] > 0
    assert summary(told.folder)["flips/stale"] == 7
    (table,) = told.folder.glob("files/media/table/census*.table.json")
    assert json.loads(table.read_text()) == {"columns": ["model", "flips"], "data": [["m", 2], ["é", None]]}
    run = run_record(told.folder)
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert (run.run_id, run.project, run.run_group) == ("run-1", "residue", "default")
    assert config["max_new_tokens"] == 32
    assert config["store"] == {"url": "s3://***@b"}
    assert config["run"]["to_run"] == {"m": 3}
    written = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert not [data for data in written if b"hunter2" in data]
    assert not run.git.remote_url
    assert capfd.readouterr() == ("", "")


def test_two_runs_with_hostile_names_keep_apart(tmp_path: Path) -> None:
    warnings: list[str] = []
    names = ["../\x1b[31m\n\udc80é", "../\x1b[31m\n\udc81é!"]
    both = [tracker(warnings), tracker(warnings)]
    for told, name in zip(both, names, strict=True):
        told.started(start(tmp_path, name))
    for told in both:
        told.block_done(receipt(1, model="m\udc80[/red]\n$../"))
        told.close(([], []), {"flips/\x1b]0;x\x07": 1})
    folders = [told.folder for told in both]
    assert warnings == []
    assert len({run_record(folder).run_id for folder in folders if folder}) == 2
    assert {folder.parent for folder in folders if folder} == {tmp_path / "wandb"}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ModuleNotFoundError('No module named wandb')", "lost everything (ModuleNotFoundError: No module"),
        (OPENS + "def init(**_): raise RuntimeError('no\\nroom')", "lost everything (RuntimeError: no room)"),
        (OPENS + "def init(**_): raise SystemExit(3)", "lost everything (SystemExit: 3)"),
        ("import os; os._exit(1)", "lost everything (the wandb process ended early)"),
        (OPENS + "def crash(*_): raise ValueError('x')\nRun.log = crash", "lost metrics, census (ValueError: x)"),
        (OPENS + "import os\nRun.finish = lambda *_, **__: os._exit(1)", "lost the last updates and the census ("),
        (OPENS + "import time\nRun.finish = lambda *_, **__: time.sleep(60)", "census (not finished within 3 s)"),
        (OPENS + "import time\nRun.log = lambda *_: time.sleep(60)", "census (not finished within 3 s)"),
        (HANGS, "lost everything (not finished within 3 s)"),
        (OPENS + "print('WANDB' * 9999, flush=True)\nimport atexit, time\natexit.register(time.sleep, 60)", None),
    ],
)
def test_a_broken_wandb_costs_one_line(tmp_path: Path, fake, source: str, said: str | None) -> None:
    warnings: list[str] = []
    fake(source)
    told = tracker(warnings, timeout_s=3)
    assert ran(told, tmp_path) < 0.3
    before = time.monotonic()
    told.close((["a"], [[1]]), {})
    assert time.monotonic() - before < 5
    if said is None:
        assert warnings == []
        return
    (warning,) = warnings
    assert said in warning or "this run is not tracked" in warning
    assert "\n" not in warning


def test_a_full_queue_drops_and_counts(tmp_path: Path, fake) -> None:
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


DRIVER = """
import os, sys, time
from pathlib import Path
from orchestrator.config import TrackingConfig
from orchestrator.listener import Start
from orchestrator.tracking import make_tracker
from workers.block import Receipt
told = make_tracker(TrackingConfig(kind="wandb", timeout_s=2))
told.started(Start("run-1", "g", sys.argv[1], "inline", {"m": 1}, {}, {"m": 1}, {}))
told.block_done(Receipt("b", "m", 1, True, {"done": 1}, {}, None, 0.1))
"""


def drive(end: str, store: Path, path: str = "") -> tuple[int, float, str]:
    before = time.monotonic()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER + end, str(store)], env=env, capture_output=True, text=True, timeout=30
    )
    return done.returncode, time.monotonic() - before, done.stdout + done.stderr


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
    folder = fake(HANGS)
    code, wall_s, said = drive(end, tmp_path, str(folder))
    assert code == 7
    assert wall_s < 8
    assert said.count("\n") == ("close" in end)
    deadline = time.monotonic() + 6
    while processes(str(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(str(folder)) == []


def test_a_killed_driver_leaves_a_whole_file(tmp_path: Path) -> None:
    end = "while told.folder is None: time.sleep(0.05)\ntime.sleep(0.3)\nos.kill(os.getpid(), 9)"
    assert drive(end, tmp_path)[0] == -9
    (folder,) = tmp_path.glob("wandb/offline-run-*")
    deadline = time.monotonic() + 8
    while not (exits := [record.exit for record in records(folder) if record.HasField("exit")]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [record.exit_code for record in exits] == [1]
    assert history(folder)[0]["trials/done"] == 1


def test_a_login_without_a_network_is_kept_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    warnings: list[str] = []
    told = tracker(warnings, timeout_s=2)
    ran(told, tmp_path)
    deadline = time.monotonic() + 15
    while told.folder is None and time.monotonic() < deadline:
        time.sleep(0.1)
    told.close()
    assert warnings == []
    assert told.url is None
    assert told.folder is not None
    assert told.folder.name.startswith("offline-run-")
    assert history(told.folder)[-1]["trials/done"] == 3


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
    assert run_id("20260101-ab.c_1") == "20260101-ab.c_1"
    ids = {run_id(name) for name in ["a/b", "a:b", "a-b", "x" * 70, "x" * 71]}
    assert len(ids) == 5
    assert all(len(name) <= 64 and "/" not in name for name in ids)
