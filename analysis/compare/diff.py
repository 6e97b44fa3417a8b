"""`diff`: the same questions in two stores, by two library versions or serving stacks: what came out otherwise?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text

from analysis.compare.sides import BY, chosen, hold, opened
from analysis.formats import write
from analysis.seal.digests import digests, sealed_columns, types, who
from analysis.terminal import console, grid, neutral, number, plain
from analysis.values import jsonable

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.warehouse import Warehouse

Row = dict[str, Any]
SHOWN = ("status", "effect_status", "effect", "is_flip", "layer1", "reply", "reply_ids")
ID_DIGITS = 12
"""Of a cell's id: enough for `mode=replay`, which takes the beginning of one."""
COUNTS = {
    "num_in_both": "in\nboth",
    "num_equal": "equal",
    "num_only_a": "only\nin A",
    "num_only_b": "only\nin B",
    "num_other_status": "other\nstatus",
    "num_other_effect": "other\neffect",
    "num_flips_gained": "flips\ngained",
    "num_flips_lost": "flips\nlost",
    "num_flips_unjudged": "flips un-\njudged",
    "num_reply_alone": "other reply,\nsame effect",
    "num_other_layer1": "other\nLayer 1",
}


def show_diff(a: str, b: str, by: str | None, num_rows: int, form: str) -> bool:
    """Print how two stores differ; whether they do not, in any sealed column of any trial.

    Args:
        by: a key of `BY`, or None for what fits.
        num_rows: how many of the trials that differ are shown.
        form: `table`, `json`, or how to write every trial that differs.

    Raises:
        AnalysisError: one of them is no store, or asks one question in several ways.
    """
    with opened(a, b) as (ours, theirs):
        by = chosen(ours, theirs, by)
        columns = _hold_trials(ours, theirs, by)
        if form not in ("table", "json"):
            answer = ours.of_pair("from differences")
            write(answer, form)
            return bool(answer.num_rows == 0)
        said = {"a": {"store": a} | _coverage(ours), "b": {"store": b} | _coverage(theirs)}
        said |= _found(ours, by, columns, num_rows)
    if form == "json":
        print(json.dumps(jsonable(said), indent=1, allow_nan=False))
    else:
        _show(said, console())
    return bool(said["is_equal"])


def _hold_trials(ours: Warehouse, theirs: Warehouse, by: str) -> list[str]:
    """Hold the trials of both; the columns that are compared."""
    join = BY[by]
    columns = sorted({*sealed_columns(ours.root), *sealed_columns(theirs.root)} - set(join.differs))
    keep = [*SHOWN, f"{join.column} as question", "null::varchar as part"]

    def side(store: Warehouse) -> str:
        known = types(store, "questions")
        return digests("questions", columns, known, [*who(known), *keep])

    hold(ours, theirs, side(ours), side(theirs), by)
    return columns


def _found(ours: Warehouse, by: str, columns: list[str], num_rows: int) -> Row:
    arms = ours.of_pair("from differences_by_arm").to_pylist()
    changed = ours.of_pair("from changed_columns").to_pylist()
    num_equal = sum(row["num_equal"] for row in arms)
    num_all = sum(row["num_in_both"] + row["num_only_a"] + row["num_only_b"] for row in arms)
    return {
        "is_equal": num_equal == num_all,
        "joined_by": BY[by].words,
        "num_equal": num_equal,
        "num_differences": num_all - num_equal,
        "arms": arms,
        "columns": {columns[row["place"] - 1]: row["num_rows"] for row in changed},
        "rows": [_named(row, columns) for row in ours.of_pair("from differences limit ?", [num_rows]).to_pylist()],
    }


def _coverage(side: Warehouse) -> Row:
    counts = side.sql("select status, count(*) as num from outcomes group by status order by status").to_pylist()
    statuses = {row["status"]: row["num"] for row in counts}
    return {"planned": sum(statuses.values()), **statuses}


def _named(row: Row, columns: list[str]) -> Row:
    """A trial that differs, its columns by name."""
    places = row.pop("places")
    return row | {"columns": None if places is None else [columns[place - 1] for place in places]}


def _show(said: Row, out: Console) -> None:
    for side in ("a", "b"):
        counts = dict(said[side])
        store, planned = counts.pop("store"), counts.pop("planned")
        found = ", ".join(f"{num} {status}" for status, num in counts.items())
        out.print(
            Text(f"{side.upper()}  {neutral(store)}: {planned} planned, {found or 'none recorded'}"), soft_wrap=True
        )
    out.print(Text(f"joined by {said['joined_by']}\n"))
    lines = [[plain(row["model"]), plain(row["arm"]), *(str(row[name]) for name in COUNTS)] for row in said["arms"]]
    out.print(
        grid(["model", "arm", *COUNTS.values()], lines, right=range(2, 2 + len(COUNTS)), elided=[0]), "\n", sep=""
    )
    if said["columns"]:
        changed = ", ".join(f"{name} {num}" for name, num in said["columns"].items())
        out.print(Text(f"sealed columns that differ, in how many trials: {neutral(changed)}\n"))
    for row in said["rows"]:
        out.print(Text(_line(row)), soft_wrap=True)
    if hidden := said["num_differences"] - len(said["rows"]):
        out.print(Text(f"{hidden} more; --rows shows more of them, --format csv all"), style="dim")
    out.print(Text(_verdict(said)))


def _line(row: Row) -> str:
    cell = plain(row["cell_id_a"] or row["cell_id_b"])[:ID_DIGITS]
    who = ", ".join(plain(row[name]) for name in ("model", "arm", "situation") if row[name])
    said = "; ".join(_words(row)) or f"nothing but {', '.join(map(neutral, row['columns']))}"
    return f"{cell}/{row['draw']} ({who}): {said}"


def _words(row: Row) -> Iterator[str]:
    """What differs in a trial, the gravest first."""
    if not row["is_in_both"]:
        yield "only in A" if row["cell_id_b"] is None else "only in B"
        return
    flips = {"is_flip_gained": "flip gained", "is_flip_lost": "flip lost", "is_flip_unjudged": "flip no longer judged"}
    yield from (words for name, words in flips.items() if row[name])
    if row["is_other_status"]:
        yield f"status {plain(row['status_a'])} → {plain(row['status_b'])}"
    if row["is_other_effect"]:
        name = "effect" if row["effect_a"] != row["effect_b"] else "effect_status"
        yield f"{name} {plain(row[f'{name}_a'])} → {plain(row[f'{name}_b'])}"
    if row["is_other_layer1"]:
        yield f"Layer 1 {plain(row['layer1_a'])} → {plain(row['layer1_b'])}"
    if row["is_reply_alone"]:
        yield f"reply {plain(row['reply_a'])!r} → {plain(row['reply_b'])!r}"


def _verdict(said: Row) -> str:
    if said["is_equal"]:
        return f"equal: {number(said['num_equal'], 'trial')}, every sealed column"
    return f"different: {number(said['num_differences'], 'trial')}, {said['num_equal']} equal"
