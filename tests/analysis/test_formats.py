"""Whatever type a query gives, and wherever the answer goes: sensible text, or one line that says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from analysis.__main__ import main

ROOT = Path(__file__).parents[2]
FORMATS = ("table", "csv", "json", "parquet")


@pytest.fixture
def ask(builder, capsys):
    def asked(*words):
        code = main(["--store", str(builder.root), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


def shell(builder, words, redirection):
    command = f'"{sys.executable}" -m analysis --store "{builder.root}" {words} {redirection}'
    return subprocess.run(["bash", "-c", command], capture_output=True, cwd=ROOT, check=False, text=True)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("{'a': 'nan'::float}", {"a": None}),
        ("[{'a': ['inf'::double]}]", [{"a": [None]}]),
        ("map {'a': 'nan'::float}", [["a", None]]),
        ("{'a': 1.5::decimal(4, 1)}", {"a": 1.5}),
        ("{'a': 2.0::decimal(4, 1), 'b': null}", {"a": 2, "b": None}),
        ("'\\x00\\xFFz'::blob", "\\x00\\xFFz"),
        ("[interval 1 day]", ["P1D"]),
        ("{'t': '2026-01-02'::date}", {"t": "2026-01-02"}),
        ("170141183460469231731687303715884105727::hugeint > 0", True),
    ],
)
def test_json_is_valid_at_any_depth(ask, value, wanted):
    def refuse(word):
        raise AssertionError(word)

    code, out, _ = ask("sql", f"select {value} as x", "--format", "json")
    assert code == 0
    assert json.loads(out, parse_constant=refuse) == [{"x": wanted}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("interval 1 day", "P1D"),
        ("interval '14 months 3 days 1.25 seconds'", "P14M3DT1.25S"),
        ("interval 0 day", "PT0S"),
        ("interval '-2 days'", "P-2D"),
        ("interval '100 seconds'", "PT100S"),
        ("'a\\x00\\x5Cb'::blob", "a\\x00\\x5Cb"),
        ("['a']", '["a"]'),
    ],
)
def test_blobs_intervals_and_lists_are_text_and_no_python(ask, value, text):
    table, lines = ask("sql", f"select {value} as x")[1], ask("sql", f"select {value} as x", "--format", "csv")[1]
    assert text in table
    assert lines == f"x\n{text}\n" if '"' not in text else text.replace('"', '""') in lines


def test_csv_tells_null_from_the_empty_text_and_is_read_back_whole(ask, tmp_path):
    values = ["''", "null", "'a,b'", "'say \"x\"'", "E'two\\nlines'", "E'end\\r'", "' spaced '", "'é'"]
    query = f"select {', '.join(f'{value} as c{place}' for place, value in enumerate(values))}"
    out = ask("sql", query, "--format", "csv")[1]
    assert out.splitlines()[1].startswith('"",,"a,b",')
    path = tmp_path / "answer.csv"
    path.write_bytes(out.encode())
    with duckdb.connect() as connection:
        options = "all_varchar = true, header = true, allow_quoted_nulls = false"
        found = connection.execute(f"from read_csv('{path}', {options})").fetchall()
        assert found == connection.execute(query).fetchall()


@pytest.mark.parametrize("value", ["'infinity'::timestamp", "'-infinity'::timestamptz", "'infinity'::date"])
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_value_that_python_lacks_is_one_line_and_its_mend(ask, value, form):
    code, out, err = ask("sql", f"select {value} as x", "--format", form)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "column 'x'" in err
    assert "cast it to varchar" in err
    assert ask("sql", f"select ({value})::varchar as x", "--format", form)[0] == 0


def test_a_type_that_parquet_lacks_is_one_line_and_its_mend(builder):
    done = shell(builder, "--format parquet sql 'select interval 1 day'", "| cat; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cast it to varchar" in done.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_one_line_and_exit_code_1(builder, form):
    builder.store(builder.trial())
    done = shell(builder, f"--format {form} census", "> /dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "No space left" in done.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_closed_output_is_one_line_and_exit_code_1(builder, form):
    done = shell(builder, f"--format {form} census", ">&-")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr


def test_a_closed_error_stream_keeps_the_answer_clean(builder):
    done = shell(builder, "query nothing", "2>&-")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    "words", [["--store", "~nobody-of-this-name", "census"], ["report", "--out", "~nobody-here/x"]]
)
def test_the_home_of_nobody_is_one_line_and_exit_code_1(ask, words):
    code, out, err = ask(*words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no folder ~nobody" in err


def test_a_healthy_store_is_an_empty_document_of_checks(ask, builder):
    builder.store(*builder.episode())
    assert json.loads(ask("--format", "json", "checks")[1]) == []
    assert ask("--format", "csv", "checks")[1] == "check\n"


def test_several_failing_checks_are_one_document(builder, ask, tmp_path):
    rows = [builder.trial(arm="fresh", carrier_absent=False, reply_ids=[9, 9]), builder.trial(arm="cold")]
    builder.store(*rows)
    code, out, _ = ask("--format", "json", "checks")
    found = json.loads(out)
    assert code == 3
    assert {row["check"] for row in found} == {"isolation_unproven", "proposition_1"}
    assert {row["cell_id"] for row in found} == {rows[0]["cell_id"]}
    assert len(ask("--format", "csv", "checks")[1].splitlines()) == 1 + len(found)
    path = tmp_path / "faults.parquet"
    assert shell(builder, "--format parquet checks", f'> "{path}"').returncode == 3
    assert pq.read_table(path).num_rows == len(found)
