"""`python -m analysis` for people, pipes and scripts."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.__main__ import COMMANDS, main
from analysis.terminal import neutral

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b[2J\x1b]0;title\x07[bold red]x[/bold red]\r\n\u202egnp\u2066\x9b31m=cmd|' /C calc'!A0,\"q\""


def run(*words, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "analysis", *map(str, words)], capture_output=True, cwd=cwd, check=False
    )


@pytest.fixture
def ask(builder, capsys):
    def asked(*words):
        code = main(["--store", str(builder.root), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


def test_the_census_shows_its_counts_and_always_its_coverage(builder, ask):
    rows = [
        row
        for situation in builder.situations()
        for kind in ("attack", "control")
        for row in builder.episode(
            flips=kind == "attack" and situation["strength"] != "neutral", kind=kind, **situation
        )
    ]
    builder.store(*rows)
    code, out, err = ask("census")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["m", "stale", "6/9", "0/3", "3/3", "3/3", "2/3", "2/3", "2/3", "18/18"] in lines
    assert ["m", "stale", "9/9", "9/9", "9/9", "(6+3)", "9/9", "12/18", "0/0/0", "18/18"] in lines
    assert ["m", "stale", "18/18", "18/18", "0", "18", "0", "12/18", "18/18"] in lines
    assert ["m", "fresh", "0/9", "0/3", "0/3", "0/3", "0/3", "0/3", "0/3", "18/18"] in lines
    assert lines[-1] == ["coverage", "72/72"]


def test_several_models_also_show_their_sum(builder, ask):
    builder.store(*builder.episode(flips=True, model="a"), *builder.episode(model="b"))
    lines = [line.split() for line in ask("census")[1].splitlines()]
    assert ["all", "models", "stale", "1/2", "1/2", "1/2", "2/2"] in lines


def test_nothing_observed_is_a_dash_and_not_zero_of_zero(builder, ask):
    builder.run([row | {"blocked": "no weights: x"} for row in builder.episode()])
    out = ask("census")[1]
    assert "0/0 " not in out.replace("0/0/0", "")
    assert "4 no weights: x" in out
    assert out.splitlines()[-1].split() == ["coverage", "0/4", "4", "missing"]


def test_what_was_not_compared_or_is_not_known_is_a_dash(builder, ask):
    builder.store(builder.trial())
    lines = [line.split() for line in ask("census")[1].splitlines()]
    assert ["m", "stale", "–", "–", "–", "–", "–", "0/0/0", "1/1"] in lines


@pytest.mark.parametrize("is_mixed", [True, False])
def test_the_census_says_once_when_it_pools_different_questions(builder, ask, is_mixed):
    for grid, tokens in (("short", 30), ("long", 31 if is_mixed else 30)):
        builder.store(*builder.episode(episode_id="e", decode=str(tokens)), grid=grid)
    code, out, _ = ask("census")
    warnings = [line for line in out.splitlines() if line.startswith("warning")]
    assert (code, len(warnings)) == (0, is_mixed)
    assert all("long, short" in line for line in warnings)
    for words in (["census", "--format", "json"], ["query", "census_by_vehicle"], ["sql", "from census"]):
        code, out, err = ask(*words)
        assert (code, "warning" in out, err.count("\n")) == (0, False, is_mixed)
    assert ask("query", "coverage")[2] == ""


def test_the_census_of_an_empty_store_is_empty_coverage(ask):
    code, out, _ = ask("census")
    assert (code, out.splitlines()[-1]) == (0, "coverage 0/0")


def test_a_piped_census_keeps_its_width_and_its_numbers(builder):
    rows = [row for n in range(3) for row in builder.episode(model=f"a-model-with-quite-a-long-name-{n}" * 2)]
    builder.store(*rows)
    out = run("census", "--store", builder.root).stdout.decode()
    assert max(map(len, out.splitlines())) <= 120
    assert "\x1b" not in out
    assert not [line for line in out.splitlines() if "…" in line.split("…", 1)[-1]]


@pytest.mark.parametrize("words", [("sql", "from trials"), ("sql", "select reply from trials"), ("query", "trials")])
def test_hostile_replies_reach_the_terminal_as_text(builder, ask, words):
    builder.store(builder.trial(reply=HOSTILE, model=HOSTILE))
    _, out, _ = ask(*words)
    assert "[bold red]x[/bold red]" in out
    assert not set(out) & set("\x1b\x07\r\x9b\u202e\u2066")


def test_hostile_words_in_census_headings_and_errors_are_text_too(builder, ask):
    builder.store(*builder.episode(model=HOSTILE, vehicle=HOSTILE, policy=HOSTILE))
    builder.run([builder.trial(model=HOSTILE, blocked=HOSTILE)], grid=HOSTILE)
    said = [*ask("census"), *ask("coverage"), *ask("query", HOSTILE), *ask("sql", 'select 1 as "\x1b[31m[red]x"')]
    text = "".join(part for part in said if isinstance(part, str))
    assert "[red]x" in text
    assert not set(text) & set("\x1b\x07\r\x9b\u202e\u2066")


def test_neutral_keeps_ordinary_text():
    assert neutral("finance-desk é 中 🧪 [x]") == "finance-desk é 中 🧪 [x]"
    assert neutral("a\nb\x1b") == "a\\nb\\x1b"


def test_formats_carry_hostile_text_whole(builder, tmp_path):
    builder.store(builder.trial(reply=HOSTILE))
    query = ("sql", "select reply, reply_ids, target_margin from trials", "--store", builder.root)
    table = list(csv.reader(io.StringIO(run(*query, "--format", "csv").stdout.decode(), newline="")))
    assert table == [["reply", "reply_ids", "target_margin"], [HOSTILE, "[1]", ""]]
    rows = json.loads(run(*query, "--format", "json").stdout)
    assert rows == [{"reply": HOSTILE, "reply_ids": [1], "target_margin": None}]
    (tmp_path / "a.parquet").write_bytes(run(*query, "--format", "parquet").stdout)
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == rows


def test_json_has_no_word_for_nan(ask):
    assert json.loads(ask("sql", "select 'nan'::double as x, [1.5] as y", "--format", "json")[1]) == [
        {"x": None, "y": [1.5]}
    ]


def test_a_column_named_twice_is_shown_twice(ask):
    assert ask("sql", "select 1 as a, 2 as a")[1].split()[-4:] == ["1", "2", "1", "row"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cenus"], "unknown command 'cenus', did you mean 'census'?"),
        (["census", "--format", "jsn"], "unknown format 'jsn', did you mean 'json'?"),
        (["query", "covrage"], "no view 'covrage', did you mean 'coverage'?"),
        (["sql", "from cenus"], "no view 'cenus', did you mean 'census'?"),
        (["census", "--store", "/nowhere"], "no results at /nowhere"),
        (["sql"], "the following arguments are required: query"),
        ([], f"error: name a command: {', '.join(COMMANDS)}\n"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(ask, words, said):
    code, out, err = ask(*words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: ")
    assert said in err


def test_tables_lists_each_view_with_its_question(ask):
    code, out, _ = ask("tables")
    assert code == 0
    assert "census_by_strength" in out
    assert "Why is it missing?" in " ".join(out.split())


def test_publish_names_the_file_for_the_shell(builder, ask):
    code, out, _ = ask("publish")
    assert (code, out.strip()) == (0, str(builder.root / "residue.duckdb"))


def test_a_reader_that_stops_early_is_no_failure(builder):
    builder.store(*(builder.trial(version=n) for n in range(40)))
    arguments = [sys.executable, "-m", "analysis", "--store", str(builder.root), "sql", "from trials"]
    command = f"{shlex.join(arguments)} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
