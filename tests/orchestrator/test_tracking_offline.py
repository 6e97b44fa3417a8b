"""What the real wandb has written is read back from its files."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest

from tests.orchestrator.tracked import drive, nobody, ran, receipt, start, tracker

__all__ = ["nobody"]


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
    """wandb#10435, wandb#5561: an offline folder that was empty or lacked its files."""
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


def test_a_killed_driver_leaves_a_whole_file(tmp_path: Path) -> None:
    end = "while told.folder is None: time.sleep(0.05)\ntime.sleep(0.3)\nos.kill(os.getpid(), 9)"
    assert drive(end, tmp_path, timeout_s=15)[0] == -9
    (folder,) = tmp_path.glob("wandb/offline-run-*")
    deadline = time.monotonic() + 20
    while not (exits := [record.exit for record in records(folder) if record.HasField("exit")]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [record.exit_code for record in exits] == [1]
    assert history(folder)[0]["trials/done"] == 1


def test_a_login_without_a_network_is_kept_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    warnings: list[str] = []
    told = tracker(warnings, timeout_s=4)
    ran(told, tmp_path)
    deadline = time.monotonic() + 30
    while told.folder is None and time.monotonic() < deadline:
        time.sleep(0.1)
    told.close()
    assert warnings == []
    assert told.url is None
    assert told.folder is not None
    assert told.folder.name.startswith("offline-run-")
    assert history(told.folder)[-1]["trials/done"] == 3
