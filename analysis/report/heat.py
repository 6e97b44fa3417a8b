"""Heat maps: a line per model and arm, a column per level, k/n in every cell and never a colour alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.census import levels
from analysis.report.tables import (
    Cell,
    Column,
    Group,
    Line,
    Row,
    Span,
    Table,
    cell,
    grouped,
    key,
    shade,
    shown,
)
from analysis.terminal import NOTHING, share

FLIPS = ("num_flips", "num_judged")


def by_level(census: Sequence[Row], cuts: Mapping[str, Sequence[Row]], setting: Sequence[str]) -> Table:
    """Flips of every model and arm: all of them, then level by level of each axis in `cuts`.

    Args:
        census: rows of `census` of one setting.
        cuts: axis → rows of `census_by_<axis>` of that setting.
        setting: the keys that all rows share.
    """
    places = [(axis, level) for axis, rows in cuts.items() for level in levels(row[axis] for row in rows)]
    found = {
        (row["model"], row["arm"], axis, row[axis]): _cell(row, f"census_by_{axis}", {axis: row[axis]})
        for axis, rows in cuts.items()
        for row in rows
    }
    spans = [Span("", 1), Span("", 1)]
    spans += [Span(axis, sum(place[0] == axis for place in places)) for axis in cuts]
    columns = [Column("arm", ("arm",), "arm"), Column("all", FLIPS, "share")]
    columns += [Column(shown(level), FLIPS, "share") for _, level in places]
    lines = {
        (row["model"], row["arm"]): (
            _cell(row),
            *(found.get((row["model"], row["arm"], *at), _empty()) for at in places),
        )
        for row in census
    }
    caption = "Flips of the judged attack trials, by strength and by vehicle"
    sources = ("census", *(f"census_by_{axis}" for axis in cuts))
    return _heat("census", caption, columns, spans, _groups(census, lines, setting), sources)


def by_situation(census: Sequence[Row], situations: Sequence[Row], setting: Sequence[str]) -> Table:
    """Flips of every model and arm in each combination of vehicle and strength."""
    vehicles, strengths = (levels(row[axis] for row in situations) for axis in ("vehicle", "strength"))
    places = [(vehicle, strength) for vehicle in vehicles for strength in strengths]
    found = {
        (row["model"], row["arm"], row["vehicle"], row["strength"]): _cell(
            row, key={"vehicle": row["vehicle"], "strength": row["strength"]}
        )
        for row in situations
    }
    lines = {
        (row["model"], row["arm"]): tuple(found.get((row["model"], row["arm"], *at), _empty()) for at in places)
        for row in census
    }
    spans = [Span("", 1), *(Span(shown(vehicle), len(strengths)) for vehicle in vehicles)]
    columns = [Column("arm", ("arm",), "arm"), *(Column(shown(strength), FLIPS, "share") for _, strength in places)]
    view = "census_by_situation"
    caption = "Flips of the judged attack trials, in each combination of vehicle and strength"
    return _heat(view, caption, columns, spans, _groups(census, lines, setting), (view,))


def verdicts(view: str, caption: str, rows: Sequence[Row], lines_by: Sequence[str], group: str = "") -> Table:
    """Layer 1 verdicts, a column per arm and a line per combination of `lines_by`, headed by its last column."""
    arms = levels(row["arm"] for row in rows)
    name = lines_by[-1]
    columns = [Column(name.replace("_", " "), (name,), "text"), *(Column(arm, ("arm",), "text") for arm in arms)]
    cells: dict[tuple[Any, ...], dict[str, Cell]] = {}
    firsts: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        place = tuple(row[name] for name in lines_by)
        firsts.setdefault(place, row)
        cells.setdefault(place, {})[row["arm"]] = _verdict(row)
    lines = [
        (row, Line(key(row, lines_by), (cell(row, columns[0]), *(cells[place].get(arm, _empty()) for arm in arms))))
        for place, row in firsts.items()
    ]
    return Table(view, caption, tuple(columns), grouped(lines, group), (view,))


def _verdict(row: Row) -> Cell:
    words = ("intact", "violated", "unsupported", "reference")
    columns = [f"num_layer1_{word}" for word in words] + ["num_invalid", "num_error"]
    said = [(row[name], word) for name, word in zip(columns, (*words, "invalid", "error"), strict=True) if row[name]]
    text = ", ".join(f"{count} {word}" for count, word in said) or NOTHING
    return Cell(text, tuple(columns), "verdict", json.dumps({"arm": row["arm"]}))


def _cell(row: Row, view: str = "", key: dict[str, Any] | None = None) -> Cell:
    k, n = (row[name] for name in FLIPS)
    return Cell(share(k, n), FLIPS, "share", json.dumps(key) if key else "", view, shade(k, n))


def _empty() -> Cell:
    return Cell("", (), "text")


def _groups(census: Sequence[Row], lines: dict[Any, tuple[Cell, ...]], setting: Sequence[str]) -> tuple[Group, ...]:
    arm = Column("arm", ("arm",), "arm")
    found = [
        (row, Line(key(row, (*setting, "model", "arm")), (cell(row, arm), *lines[row["model"], row["arm"]])))
        for row in census
    ]
    return grouped(found, "model")


def _heat(
    view: str,
    caption: str,
    columns: Sequence[Column],
    spans: Sequence[Span],
    groups: tuple[Group, ...],
    sources: tuple[str, ...],
) -> Table:
    return Table(view, caption, tuple(columns), groups, sources, spans=tuple(spans), is_heat=True)
