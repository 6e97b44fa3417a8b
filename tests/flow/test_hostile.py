"""Hostile replies go through a real run: what a model writes is recorded as it is and acts nowhere."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from analysis.__main__ import main as analysis
from analysis.formats import FORMULA
from orchestrator import command
from tests.analysis.test_hostile import BROWSER, opened
from tests.hostile import BYTES, MARK, MARKUP, TEXTS
from tests.orchestrator.test_tracking_offline import history, run_record, summary
from workers.engine import null
from workers.engine.base import Decoded

ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
REPLIES = {name: text.encode() for name, text in TEXTS.items()} | BYTES
SECRET = "hunter2-hunter2"

Decode = Callable[..., Decoded]


def acting(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in ACTING} - {"\n"}


def replying(texts: Iterable[bytes], then: Decode | None = None) -> Decode:
    """Decodes each text in turn; behind the reply of `then`, where there is one."""
    turn = itertools.cycle(texts)

    def decode(engine: null.NullEngine, handle: null.NullHandle, *asked: Any) -> Decoded:
        begun = then(engine, handle, *asked).ids if then else ()
        added = [int.from_bytes(piece) for piece in null._PIECE.findall(next(turn))]
        handle.ids.extend(added)
        ids = (*begun, *added)
        return Decoded(ids, engine.text(ids), "eos", 1.0)

    return decode


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Path]:
    """Runs the default grid with a way to decode, tracked offline; the store. Nothing said of it acts."""
    monkeypatch.setenv("WANDB_MODE", "offline")

    def ran(decode: Decode) -> Path:
        store = tmp_path / "results"
        monkeypatch.setattr(null.NullEngine, "decode", decode)
        code = command.main(["model=scripted", "executor=inline", f"store.root={store}", "decode_once=false"])
        said = capsys.readouterr()
        assert code in (0, 3), said.err
        assert "Traceback" not in said.err
        assert acting(said.out + said.err) == set()
        (store / "said").write_text(said.out + said.err, encoding="utf-8")
        return store

    return ran


def rows(store: Path, query: str) -> list[Any]:
    with duckdb.connect(str(store / "residue.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def tracked(store: Path) -> Path:
    (folder,) = store.glob("wandb/offline-run-*")
    return folder


def test_hostile_replies_go_through_a_run_into_every_door(
    run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store = run(replying(REPLIES.values()))
    kept = {reply for (reply,) in rows(store, "select reply from trials")}
    assert kept >= {reply.decode("utf-8", "replace") for reply in REPLIES.values()}
    out = {}
    for form in ("table", "json", "csv"):
        assert analysis(["--store", str(store), "--format", form, "sql", "select reply, effect from trials"]) == 0
        out[form] = capsys.readouterr().out
    assert acting(out["table"] + out["json"]) == set()
    assert kept == {row["reply"] for row in json.loads(out["json"])}
    csv.field_size_limit(10**7)
    fields = [field for row in csv.reader(io.StringIO(out["csv"], newline="")) for field in row]
    assert not [field for field in fields if field.startswith(FORMULA)]
    assert any(field.startswith("'=HYPERLINK(") for field in fields)


def test_wandb_is_told_counts_of_a_hostile_run_and_none_of_its_words(run: Callable[..., Path]) -> None:
    folder = tracked(run(replying(REPLIES.values())))
    assert [row["trials/done"] for row in history(folder) if "trials/done" in row][-1] == 108
    assert summary(folder)["trials/done"] == 108
    assert run_record(folder).project == "residue"
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not [data for data in written if MARK.encode() in data or b"evil.example" in data]


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="needs chromium: no browser was found, so nothing was opened")
def test_the_report_of_flips_with_hostile_words_is_text_in_a_real_browser(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    """The scripted model flips, and says more: so the words stand in the report's worked cells."""
    words = " ".join(MARKUP.values())
    store = run(replying([f"\n{words}".encode()], then=null.NullEngine.decode))
    assert rows(store, "select count(*) > 0 from flips") == [(True,)]
    assert analysis(["--store", str(store), "report"]) == 0
    seen = opened(store / "report.html", tmp_path)
    assert (MARK in seen.title, seen.has_asked, seen.has_said) == (False, False, False)
    assert "<script" not in seen.document
    shown = html.unescape(seen.document)
    assert [name for name, text in MARKUP.items() if text not in shown] == []


def test_hostile_errors_are_kept_and_tell_neither_a_secret_nor_an_escape(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = itertools.cycle(text[:100] for text in TEXTS.values())

    def decode(*_: object) -> Decoded:
        raise RuntimeError(f"{SECRET} {next(turn)}\udc80")

    monkeypatch.setenv("HF_TOKEN", SECRET)
    store = run(decode)
    assert rows(store, "select status, count(*) from trials group by all") == [("error", 108)]
    said = (store / "said").read_text(encoding="utf-8")
    assert "RuntimeError: ***" in said
    assert SECRET not in said
    assert not [config for (config,) in rows(store, "select config from runs") if SECRET in config]
    written = [path.read_bytes() for path in tracked(store).rglob("*") if path.is_file()]
    assert not [data for data in written if SECRET.encode() in data]
    for words in (["census"], ["coverage"], ["report"], ["sql", "select error from trials"]):
        assert analysis(["--store", str(store), *words]) == 0
        assert acting(capsys.readouterr().out) == set()
