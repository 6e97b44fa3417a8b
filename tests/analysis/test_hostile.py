"""No text of a model acts at a door of the analysis: terminal, CSV, JSON, Parquet, SQL and the page."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import unicodedata
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from analysis.__main__ import main
from analysis.terminal import HIDDEN
from tests.analysis.report.conftest import written
from tests.analysis.report.test_browser import BROWSER, FLAGS
from tests.hostile import FORMULAS, MARK, MARKUP, TEXTS


@pytest.fixture
def ask(builder, capsys):
    """A store with one reply for each text, in order, and the command over it."""
    builder.store(*(builder.trial(reply=text, version=at) for at, text in enumerate(TEXTS.values())))

    def asked(form, query="select reply from trials order by length(reply), reply"):
        assert main(["--store", str(builder.root), "--format", form, "sql", query]) == 0
        return capsys.readouterr().out

    return asked


def test_parquet_json_and_sql_keep_every_text_as_it_is(ask, builder):
    (part,) = [path for path in builder.root.glob("trials/*/part-*.parquet") if pq.read_metadata(path).num_rows]
    assert pq.read_table(part, partitioning=None)["reply"].to_pylist() == list(TEXTS.values())
    assert {row["reply"] for row in json.loads(ask("json"))} == set(TEXTS.values())
    assert {row["reply"] for row in builder.rows("from trials")} == set(TEXTS.values())


def test_a_terminal_is_sent_no_character_that_acts(ask):
    for form in ("table", "json"):
        acting = {char for char in ask(form) if unicodedata.category(char) in HIDDEN}
        assert acting == {"\n"}, form


def test_no_field_of_csv_begins_a_formula_and_numbers_stay_numbers(ask):
    csv.field_size_limit(10**7)
    fields = [row[0] for row in csv.reader(io.StringIO(ask("csv"), newline=""))][1:]
    begins = tuple("=+-@\t\r\uff1d")
    assert not [field for field in fields if field.startswith(begins)]
    assert {f"'{text}" for text in FORMULAS.values()} <= set(fields)
    assert {text for text in TEXTS.values() if not text.startswith(begins)} <= set(fields)
    assert ask("csv", "select -1.5 as x, -2 as y, '-3' as z") == "x,y,z\n-1.5,-2,'-3\n"
    assert ask("csv", 'select 1 as "=1+1"') == "'=1+1\n1\n"


class Seen(NamedTuple):
    """What a browser made of a page: its title at the end, whether a script asked or said something, the document."""

    title: str
    has_asked: bool
    has_said: bool
    document: str


def opened(page: Path, folder: Path) -> Seen:
    """Open the page in a real browser; an alert would hold it there."""
    log = folder / "requests.json"
    flags = (
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        "--enable-logging=stderr",
        "--timeout=8000",
    )
    done = subprocess.run(
        [str(BROWSER), *flags, page.as_uri()], capture_output=True, text=True, timeout=60, check=False
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    has_asked = f"http://127.0.0.1:9/{MARK}" in log.read_text(encoding="utf-8", errors="replace")
    has_said = f'"{MARK}"' in done.stderr or "CONSOLE" in done.stderr
    return Seen(title[1], has_asked, has_said, done.stdout)


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="needs chromium: no browser was found, so nothing was opened")
@pytest.mark.parametrize("harmless", [True, False])
def test_a_real_browser_runs_nothing_of_the_page(make_store, tmp_path, harmless):
    """The image alone acts in a page of no care, so the test would see it."""
    word = " ".join(MARKUP.values())
    page = tmp_path / "page.html"
    text = written(make_store("results"), word, page)
    if not harmless:
        page.write_text(f"<!DOCTYPE html><title>Residue</title><body>{MARKUP['image']}</body>", encoding="utf-8")
    title, has_asked, has_said, document = opened(page, tmp_path)
    if harmless:
        assert (MARK in title, has_asked, has_said) == (False, False, False)
        assert MARK in text
        assert "<script" not in document
    else:
        assert (MARK in title, has_asked) == (True, True)
