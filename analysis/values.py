"""Values of an answer as JSON and as text: whatever type a query gives, no Python repr and no traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from analysis.errors import AnalysisError

SECOND = 10**9
"""Nanoseconds."""


def natural(text: str) -> int:
    """A count as somebody types it.

    Raises:
        ValueError: it is none.
    """
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def rows_of(answer: pa.Table) -> Iterable[tuple[Any, ...]]:
    """The rows of an answer; by position, because a query may name a column twice.

    Raises:
        AnalysisError: a value, such as an infinite timestamp, has no counterpart in Python.
    """
    return zip(*map(_listed, answer.column_names, answer.columns), strict=True)


def jsonable(value: Any) -> Any:
    """A value as JSON knows it, at any depth; what is not finite has no word there and becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: jsonable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value] if not _is_interval(value) else _duration(*value)
    return value if value is None or isinstance(value, (bool, int, str)) else said(value)


def said(value: Any) -> str:
    """A value as text: lists, structs and maps as JSON, a blob as DuckDB writes it, an interval as ISO 8601 does."""
    if isinstance(value, bytes):
        return "".join(chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02X}" for byte in value)
    if _is_interval(value):
        return _duration(*value)
    if isinstance(value, timedelta):
        return _duration(0, value.days, round(value.seconds * SECOND + value.microseconds * 1000))
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False)
    return str(value)


def _listed(name: str, column: pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as failure:
        raise AnalysisError(f"column {name!r}: {failure}: cast it to varchar in the query") from failure
    return values


def _is_interval(value: Any) -> bool:
    return isinstance(value, pa.MonthDayNano)


def _duration(months: int, days: int, nanoseconds: int) -> str:
    """`P1M2DT3.5S`; a part that is 0 is left out."""
    seconds = f"{Decimal(nanoseconds) / SECOND:f}"
    seconds = seconds.rstrip("0").rstrip(".") if "." in seconds else seconds
    date = "".join(f"{count}{unit}" for count, unit in ((months, "M"), (days, "D")) if count)
    return f"P{date}T{seconds}S" if nanoseconds or not date else f"P{date}"
