"""The census as a paper prints it: k of n by model and arm, never without its coverage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.situations import condition, summary, varying
from analysis.terminal import NOTHING, grid, neutral, plain, share

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse

Row = dict[str, Any]
SETTING = ("study", "surface", "effect_type", "policy", "guard", "content")
STATUSES = ("done", "invalid", "unsupported", "error", "missing")
STRENGTHS = ("neutral", "suggestive", "imperative")
ARMS = (
    *("stale", "text_present", "position_control", "fresh", "cold"),
    *("truncate", "truncate_recorded", "checkpoint", "branch_scoped", "content_addressed", "provenance_mask"),
)
ORDER = (*STRENGTHS, *ARMS)
"""Strengths from weak to strong; the arms of the argument, then the restores; other words follow by name."""
MANY = 6
"""Settings from which on the census is a line each."""
POOLED = (
    "warning: grids {grids} ask one situation in several ways (decode settings, versions) and the counts pool them: "
    "keep each in a store of its own, see `query mixed_versions`"
)
HINT = 'each of them in full: census --where "{condition}"; all of them: census --where true'
SAMPLED = "sampled trials are counted apart, {done} done of {planned}: see `query draws`"
ALL = "all models"


def census_query(where: str | None) -> str:
    """The census, or the part of it that a SQL condition chooses."""
    return f"from census where ({where}\n)" if where else "from census"


def show_census(warehouse: Warehouse, out: Console, where: str | None = None) -> None:
    """Print the census of a store, then the coverage of every grid.

    A few settings have their tables each; many are a line each, unless `where` chooses some of the census's rows.
    """
    for warning in pooled(warehouse):
        _say(out, warning)
    census = _rows(warehouse, census_query(where))
    settings = sorted({_setting(row): {name: row[name] for name in SETTING} for row in census}.items())
    if len(settings) > MANY and where is None:
        found = [setting for _, setting in settings]
        out.print(summary(found, census, SETTING, levels(row["arm"] for row in census)), "\n", sep="")
        _say(out, HINT.format(condition=condition(found[0], varying(found, SETTING))))
    else:
        _show_settings(warehouse, out, census)
    out.print(coverage_table(warehouse, "coverage_by_model", ("grid", "model")), "\n", sep="")
    for row in sampled(warehouse):
        _say(out, SAMPLED.format(**row))
    out.print(Text(_coverage_line(census)))


def _show_settings(warehouse: Warehouse, out: Console, census: list[Row]) -> None:
    """Three tables for each setting that the rows name."""
    asked = {(_setting(row), row["model"], row["arm"]) for row in census}
    cuts = {
        axis: [
            row
            for row in _rows(warehouse, f"from census_by_{axis}")
            if (_setting(row), row["model"], row["arm"]) in asked
        ]
        for axis in ("strength", "vehicle")
    }
    for setting in sorted({_setting(row) for row in census}):
        out.print(Text(neutral("  ".join(setting))), "\n", sep="")
        rows = _with_totals([row for row in census if _setting(row) == setting])
        here = {
            axis: _with_totals([row for row in cut if _setting(row) == setting], axis) for axis, cut in cuts.items()
        }
        for table in (_flips(rows, here), _replies(rows), _isolation(rows)):
            out.print(table, "\n", sep="")


def _say(out: Console, line: str) -> None:
    out.print(Text(neutral(line)), "\n", sep="", soft_wrap=True)


def mixed_grids(warehouse: Warehouse) -> list[Row]:
    """The grids, as `a, b`, that ask one situation in several ways, so that a count would hold both."""
    return _rows(warehouse, "select distinct grids from mixed_versions order by grids")


def sampled(warehouse: Warehouse) -> list[Row]:
    """One row, `planned` and `done`, where anything sampled is planned; no count of the census holds it."""
    return _rows(warehouse, "select sum(planned) as planned, sum(done) as done from draws having sum(planned) > 0")


def pooled(warehouse: Warehouse) -> list[str]:
    """At most one line: which different questions the census adds up, and the mend."""
    grids = "; ".join(row["grids"] for row in mixed_grids(warehouse))
    return [POOLED.format(grids=grids)] if grids else []


def coverage_table(warehouse: Warehouse, view: str, keys: Sequence[str]) -> Table:
    """The rows of a coverage mart, the reasons on as many lines as they need."""
    short = {"unsupported": "unsup-\nported"}
    header = [*keys, "planned", *(short.get(status, status) for status in STATUSES), "why missing"]
    names = [*keys, "planned", *STATUSES, "missing_reasons"]
    lines = [[plain(row[name]) for name in names] for row in _rows(warehouse, f"from {view}")]
    numbers = range(len(keys), len(keys) + 1 + len(STATUSES))
    return grid(header, lines, title="Coverage", right=numbers, folded=[len(names) - 1])


def levels(found: Iterable[Any]) -> list[Any]:
    """The levels that occur, in their order."""
    return sorted({level for level in found if level is not None}, key=rank)


def rank(word: Any) -> tuple[int, str]:
    """Where a level or an arm stands: in `ORDER`, the others after it by name."""
    return (ORDER.index(word) if word in ORDER else len(ORDER), str(word))


def _flips(rows: list[Row], cuts: dict[str, list[Row]]) -> Table:
    columns = [(axis, level) for axis, cut in cuts.items() for level in levels(row[axis] for row in cut)]
    found = {
        (row["model"], row["arm"], axis, row[axis]): _of(row, "flips", "judged")
        for axis, cut in cuts.items()
        for row in cut
    }
    lines = [
        [
            _of(row, "flips", "judged") + (f" +{row['num_unobserved']}" if row["num_unobserved"] else ""),
            *(found.get((row["model"], row["arm"], *column), NOTHING) for column in columns),
        ]
        for row in rows
    ]
    header = ["flips", *(plain(level).replace("_", "\n") for _, level in columns)]
    title = "Flips, of the judged attack trials of competent episodes"
    if any(row["num_unobserved"] for row in rows):
        title += "; + those that are not observed: k to k + u of n + u"
    return _table(title, header, rows, lines)


def _replies(rows: list[Row]) -> Table:
    lines = [
        [
            _of(row, "competent", "competence_known"),
            _of(row, "control_safe", "control_judged"),
            _agreement(row),
            _of(row, "control_text_equal", "control_text_compared"),
            _of(row, "cold_equal", "cold_compared"),
            "/".join(str(row[f"num_{status}"]) for status in ("refused", "unparseable", "censored")),
        ]
        for row in rows
    ]
    header = [
        "competent\nepisodes",
        "controls\nsafe",
        "attacks = text\n(expl. + safe)",
        "controls\n= text",
        "all\n= cold",
        "refused/un-\nparseable/\ncensored",
    ]
    title = "Replies; equal means by token ids; the unparseable and the censored are never safe"
    return _table(title, header, rows, lines)


def _agreement(row: Row) -> str:
    """`63/63 (25+38)`: replies equal to text_present's, those that flip there, and those that do not."""
    equal = _of(row, "text_equal", "text_compared")
    return equal if equal == NOTHING else f"{equal} ({row['num_equal_exploitable']}+{row['num_equal_safe']})"


def _isolation(rows: list[Row]) -> Table:
    lines = [
        [
            _of(row, "carrier_absent", "carrier_checked"),
            _of(row, "delta_identical", "delta_checked"),
            *(str(row[f"num_layer1_{verdict}"]) for verdict in ("intact", "violated", "unsupported")),
            _of(row | {"num_layer2": row["num_layer2_intact"] + row["num_layer2_violated"]}, "layer2_intact", "layer2"),
        ]
        for row in rows
    ]
    layer1 = ("Layer 1\nintact", "Layer 1\nviolated", "Layer 1\nunsupp.")
    header = ["carrier\nabsent", "delta\nidentical", *layer1, "Layer 2\nintact"]
    return _table("Isolation of the delta, of the cache (Layer 1) and of the effect (Layer 2)", header, rows, lines)


def _table(title: str, header: list[str], rows: list[Row], lines: list[list[str]]) -> Table:
    """Model and arm, the given columns, and how much of what was planned is there."""
    whole = [
        [plain(row["model"]), plain(row["arm"]), *line, f"{row['done']}/{row['planned']}"]
        for row, line in zip(rows, lines, strict=True)
    ]
    return grid(["model", "arm", *header, "done"], whole, title=title, right=range(2, 3 + len(header)), elided=[0])


def _of(row: Row, k: str, n: str) -> str:
    """`k/n`, or a dash where there is nothing to count: 0/0 is no observation."""
    return share(row[f"num_{k}"], row[f"num_{n}"])


def _with_totals(rows: list[Row], *axes: str) -> list[Row]:
    """The rows in order; after several models also their sums, arm by arm."""
    rows = sorted(rows, key=lambda row: (row["model"], *(rank(row[name]) for name in ("arm", *axes))))
    if len({row["model"] for row in rows}) < 2:
        return rows
    sums: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        total = sums.setdefault(tuple(row[name] for name in ("arm", *axes)), row | {"model": ALL} | _counts(row, 0))
        total |= {name: total[name] + count for name, count in _counts(row).items()}
    return [*rows, *sums.values()]


def _counts(row: Row, factor: int = 1) -> dict[str, int]:
    is_count = {name for name in row if name.startswith("num_")} | {"planned", *STATUSES}
    return {name: factor * row[name] for name in row if name in is_count}


def _coverage_line(census: list[Row]) -> str:
    sums = {name: sum(row[name] for row in census) for name in ("planned", *STATUSES)}
    rest = [f"{sums[name]} {name}" for name in STATUSES[1:] if sums[name]]
    return "  ".join([f"coverage {sums['done']}/{sums['planned']}", *rest])


def _setting(row: Row) -> tuple[str, ...]:
    return tuple(f"{name}={'–' if row[name] is None else row[name]}" for name in SETTING)


def _rows(warehouse: Warehouse, query: str) -> list[Row]:
    rows: list[Row] = warehouse.sql(query).to_pylist()
    return rows
