"""Hostile replies go through a real run: what a model writes is recorded as it is and acts nowhere."""

from __future__ import annotations

import itertools
import json
import unicodedata
from pathlib import Path

import duckdb
import pytest

from analysis.__main__ import main as analysis
from orchestrator import command
from tests.hostile import BYTES, MARKUP, TEXTS
from workers.engine import null
from workers.engine.base import Decoded

ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
REPLIES = {name: text.encode() for name, text in TEXTS.items()} | BYTES


def acting(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in ACTING} - {"\n"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run of a model goes whose replies are the hostile texts, one after the other."""
    turn = itertools.cycle(REPLIES.values())

    def decode(engine: null.NullEngine, handle: null.NullHandle, *_: object) -> Decoded:
        ids = [int.from_bytes(piece) for piece in null._PIECE.findall(next(turn))]
        handle.ids.extend(ids)
        return Decoded(tuple(ids), engine.text(ids), "eos", 1.0)

    monkeypatch.setattr(null.NullEngine, "decode", decode)
    monkeypatch.setenv("WANDB_MODE", "offline")
    return tmp_path / "results"


def test_hostile_replies_go_through_a_run_into_every_door(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = command.main(["model=scripted", "executor=inline", f"store.root={store}", "decode_once=false"])
    said = capsys.readouterr()
    assert code in (0, 3), said.err
    assert "Traceback" not in said.err
    assert acting(said.out + said.err) == set()
    with duckdb.connect(str(store / "residue.duckdb"), read_only=True) as connection:
        kept = {reply for (reply,) in connection.execute("select reply from trials").fetchall()}
    assert kept >= {reply.decode("utf-8", "replace") for reply in REPLIES.values()}
    for form in ("table", "json"):
        assert analysis(["--store", str(store), "--format", form, "sql", "select reply, effect from trials"]) == 0
        out = capsys.readouterr().out
        assert acting(out) == set()
        assert form == "table" or kept == {row["reply"] for row in json.loads(out)}
    assert analysis(["--store", str(store), "report"]) == 0
    page = (store / "report.html").read_text(encoding="utf-8")
    assert acting(page) == set()
    assert not [text for text in MARKUP.values() if text in page]
    assert list(store.glob("wandb/offline-run-*/*.wandb"))
