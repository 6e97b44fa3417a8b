"""An answer for another program: CSV, JSON or Parquet on standard output."""

from __future__ import annotations

import csv
import json
import math
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.terminal import console, neutral, rows_of, show

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "parquet")


def write(answer: pa.Table, form: str) -> None:
    """Write an answer to standard output in one of `FORMATS`.

    Raises:
        AnalysisError: Parquet was asked for on a terminal.
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
        pq.write_table(answer, sys.stdout.buffer)


def _write_csv(answer: pa.Table) -> None:
    """Raw for a file or a pipe; on a terminal, model output must not move the cursor."""
    is_seen = sys.stdout.isatty()
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(answer.column_names)
    for row in rows_of(answer):
        cells = ["" if value is None else value for value in row]
        out.writerow([neutral(str(cell)) for cell in cells] if is_seen else cells)


def _write_json(answer: pa.Table) -> None:
    """A list of objects; ASCII, so that nothing in a reply reaches a terminal as it is."""
    rows = [dict(zip(answer.column_names, map(_jsonable, row), strict=True)) for row in rows_of(answer)]
    print(json.dumps(rows, indent=1, allow_nan=False, default=str))


def _jsonable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value
