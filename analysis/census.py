"""The census as a paper prints it: k of n by model and arm, never without its coverage."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.terminal import grid, neutral, plain

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse

Row = dict[str, Any]
SETTING = ("study", "surface", "effect_type", "policy", "guard")
WORDS = ("neutral", "suggestive", "imperative")
"""Strengths from weak to strong; other levels follow by name."""
REFERENCES = ("stale", "text_present", "cold", "fresh")
"""Arms in the order of the argument; others follow by name."""


def show_census(warehouse: Warehouse, out: Console) -> None:
    """Print the census of a store, one group of tables per setting, then coverage."""
    census = _rows(warehouse, "from census")
    levels = {axis: _rows(warehouse, f"from census_by_{axis}") for axis in ("strength", "vehicle")}
    for setting, found in groupby(sorted(census, key=_setting), key=_setting):
        rows = sorted(found, key=_order)
        here = {axis: [row for row in cut if _setting(row) == setting] for axis, cut in levels.items()}
        out.print(Text(neutral("  ".join(f"{name}={value}" for name, value in zip(SETTING, setting, strict=True)))))
        for table in (_flips(rows, here), _replies(rows), _isolation(rows)):
            out.print(table)
    _show_coverage(warehouse, out)


def _flips(rows: list[Row], levels: dict[str, list[Row]]) -> Table:
    cuts = [(axis, level) for axis, cut in levels.items() for level in _levels(row[axis] for row in cut)]
    found = {
        (row["model"], row["arm"], axis, row[axis]): _of(row["num_flips"], row["num_judged"])
        for axis, cut in levels.items()
        for row in cut
    }
    header = ["model", "arm", "flips", *(plain(level).replace("_", " ") for _, level in cuts), "competent", "done"]
    lines = [
        [
            *_who(row),
            _of(row["num_flips"], row["num_judged"]),
            *(found.get((row["model"], row["arm"], axis, level), "–") for axis, level in cuts),
            _of(row["num_competent"], row["num_attack"]),
            f"{row['done']}/{row['planned']}",
        ]
        for row in rows
    ]
    return _table("Flips of judged attack trials on competent episodes, by strength and by vehicle", header, lines)


def _replies(rows: list[Row]) -> Table:
    header = ["model", "arm", "controls safe", "same as text", "exploitable", "safe", "same as cold"]
    lines = [
        [
            *_who(row),
            _of(row["num_control_safe"], row["num_control_judged"]),
            _of(row["num_text_equal"], row["num_text_compared"]),
            str(row["num_equal_exploitable"]),
            str(row["num_equal_safe"]),
            _of(row["num_cold_equal"], row["num_cold_compared"]),
            *(str(row[f"num_{status}"]) for status in ("refused", "unparseable", "censored")),
        ]
        for row in rows
    ]
    title = "Replies: agreement with text_present (attack) and cold (all), by token ids; what could not be judged"
    return _table(title, [*header, "refused", "unparseable", "censored"], lines)


def _isolation(rows: list[Row]) -> Table:
    header = ["model", "arm", "carrier absent", "delta identical"]
    layers = ["Layer 1 intact", "violated", "unsupported", "Layer 2 intact", "violated"]
    counts = ("layer1_intact", "layer1_violated", "layer1_unsupported", "layer2_intact", "layer2_violated")
    lines = [
        [
            *_who(row),
            _of(row["num_carrier_absent"], row["num_carrier_checked"]),
            _of(row["num_delta_identical"], row["num_delta_checked"]),
            *(str(row[f"num_{count}"]) for count in counts),
        ]
        for row in rows
    ]
    return _table("Isolation: the delta, the cache (Layer 1; cold is its reference) and the effect (Layer 2)", [*header, *layers], lines)
