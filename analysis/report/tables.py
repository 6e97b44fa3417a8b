"""Answers as the tables of the page: each cell knows its view, its row and its columns, so a test can ask again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from analysis.terminal import NOTHING, neutral, share

Row = Mapping[str, Any]
Form = Literal["text", "number", "share", "arm", "verdict"]

SHADES = 10
"""Steps of the heat map above zero."""


class Column(NamedTuple):
    """One column of a table: what it is called, the view's columns it shows, and what it means."""

    header: str
    names: tuple[str, ...]
    form: Form = "number"
    note: str = ""


class Cell(NamedTuple):
    """One cell: its text, and where the text comes from.

    Attributes:
        names: columns of the view; for a share k and n.
        key: what to add to the line's key, and `view` where it is another than the table's.
        shade: 0 to `SHADES`, of a share in a heat map; None where nothing was counted.
    """

    text: str
    names: tuple[str, ...]
    form: Form = "number"
    key: str = ""
    view: str = ""
    shade: int | None = None


class Line(NamedTuple):
    """One row of a table; `key` finds it in the view."""

    key: str
    cells: tuple[Cell, ...]


class Group(NamedTuple):
    """Lines under a heading of their own, itself a cell of the view; the heading may be absent."""

    heading: Cell | None
    lines: tuple[Line, ...]


class Span(NamedTuple):
    """A heading above several columns."""

    text: str
    width: int


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the page.

    Attributes:
        view: the view that every cell comes from unless it names another; `sources` are all of them.
        num_hidden: rows of the view that the page leaves out.
    """

    view: str
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    sources: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    is_heat: bool = False
    num_hidden: int = 0

    @property
    def notes(self) -> list[Column]:
        """The columns that need a word of explanation."""
        return [column for column in self.columns if column.note]


def key(row: Row, names: Iterable[str]) -> str:
    """Some columns of a row as JSON, to find the row again; in ASCII, so that no hidden character is in the page."""
    return json.dumps({name: row[name] for name in names}, default=str)


def shown(value: Any) -> str:
    """A value as one line of harmless text; floats to three significant digits."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return neutral(str(value))


def cell(row: Row, column: Column) -> Cell:
    """What a column shows of a row."""
    values = [row[name] for name in column.names]
    text = share(values[0], values[1]) if column.form == "share" else shown(values[0])
    return Cell(text, column.names, column.form)


def flat(
    view: str,
    caption: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    keys: Sequence[str],
    *,
    group: str = "",
    num_hidden: int = 0,
) -> Table:
    """A table of a view's rows in their order, under a heading for each value of `group`, where one is named."""
    lines = [(row, Line(key(row, keys), tuple(cell(row, column) for column in columns))) for row in rows]
    return Table(view, caption, tuple(columns), grouped(lines, group), (view,), num_hidden=num_hidden)


def grouped(lines: Iterable[tuple[Row, Line]], column: str) -> tuple[Group, ...]:
    """Lines under a heading for each value of `column` in their rows; without a heading where it names none."""
    groups: dict[Any, list[Line]] = {}
    for row, line in lines:
        groups.setdefault(row[column] if column else None, []).append(line)
    return tuple(
        Group(Cell(shown(value), (column,), "text", json.dumps({column: value})) if column else None, tuple(found))
        for value, found in groups.items()
    )


def shade(k: int, n: int) -> int | None:
    """The step of the heat map for k of n: 0 for none, at least 1 for any."""
    if not n:
        return None
    return max(SHADES * k // n, 1) if k else 0
