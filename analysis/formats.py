"""An answer for another program: CSV, JSON or Parquet on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.terminal import console, neutral, show
from analysis.values import jsonable, rows_of, said

FORMATS = ("table", "csv", "json", "parquet")
SPECIAL = set(',"\r\n')
"""What makes a field of CSV need quotes."""
FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet may take for the begin of a formula (OWASP, CSV injection)."""


def write(answer: pa.Table, form: str) -> None:
    """Write an answer to standard output in one of `FORMATS`.

    Raises:
        AnalysisError: Parquet was asked for on a terminal, or cannot hold the answer.
    """
    if form == "table":
        show(answer, console())
    elif form == "csv":
        _write_csv(answer)
    elif form == "json":
        _write_json(answer)
    elif sys.stdout.isatty():
        raise AnalysisError("parquet is binary: send it to a file, … --format parquet > answer.parquet")
    else:
        _write_parquet(answer)


def joined(answers: Mapping[str, pa.Table], column: str) -> pa.Table:
    """Answers of different columns as one: each row with its answer's name first, and null where it lacks a column."""
    named = [
        answer.add_column(0, column, pa.array([name] * answer.num_rows, pa.string()))
        for name, answer in answers.items()
    ]
    nothing = pa.table({column: pa.array([], pa.string())})
    return pa.concat_tables([nothing, *named], promote_options="permissive")


def _write_parquet(answer: pa.Table) -> None:
    try:
        pq.write_table(answer, sys.stdout.buffer)
    except pa.ArrowException as failure:
        raise AnalysisError(f"parquet cannot hold this answer: {failure}: cast it to varchar in the query") from failure


def _write_csv(answer: pa.Table) -> None:
    """For a file or a pipe, raw but for formulas; on a terminal, model output must not move the cursor."""
    seen = neutral if sys.stdout.isatty() else str
    for row in [answer.column_names, *rows_of(answer)]:
        sys.stdout.write(",".join(_field(None if value is None else seen(_inert(value))) for value in row) + "\n")


def _inert(value: Any) -> str:
    """A value as text; an apostrophe before a text that a spreadsheet would compute. Numbers stay numbers."""
    text = said(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


def _field(text: str | None) -> str:
    """One field; null is empty and the empty text is quoted, which Python's own writer does only from 3.12 on."""
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & SPECIAL else text


def _write_json(answer: pa.Table) -> None:
    """A list of objects; ASCII, so that nothing in a reply reaches a terminal as it is."""
    rows = [dict(zip(answer.column_names, map(jsonable, row), strict=True)) for row in rows_of(answer)]
    print(json.dumps(rows, indent=1, allow_nan=False))
