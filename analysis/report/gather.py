"""Ask the views, and lay the answers out as the sections of the page. Nothing is counted here: SQL counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.census import SETTING, mixed_grids, rank, sampled
from analysis.report import columns, heat
from analysis.report.tables import Column, Row, Table, flat, key
from analysis.report.worked import WorkedCell, worked_cells
from analysis.views import names, views

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse

MAX_WORKED, MAX_LISTED, MAX_RUNS = 200, 100, 20
"""A page that opens at once says how much it leaves out."""

SPREAD = """
    select * from flips
    order by
        row_number() over (partition by study, model, arm order by vehicle, strength, cell_id, draw), study, model, arm
"""
"""Flips so that the first few are of every model and arm."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the census never pools: the tables of one study, surface, effect, policy, guard and content."""

    row: Row
    key: str
    by_arm: Table
    heats: list[Table]
    unjudged: Table | None
    isolation: Table


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its view, its question and how many rows it found."""

    name: str
    question: str
    num_rows: int


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the page shows."""

    arms: list[str]
    coverage: list[Table]
    asked: list[Table]
    settings: list[Setting]
    sampled: list[Row]
    """One row where trials are planned that were not decoded greedily, `planned` and `done`."""
    families: list[Table]
    propositions: list[Row]
    breaches: Table
    kept: Table
    num_flips: int
    worked: list[WorkedCell]
    checks: list[Check]
    mixed: list[Row]
    """Grids whose different questions about one situation the counts add up."""
    is_moving: bool
    """A run was recording while the store was read: the tables may differ by what it added."""


def read_page(warehouse: Warehouse) -> Page:
    """Read one store. A query sees what is committed at its moment, so a store that grows meanwhile is noticed.

    Raises:
        AnalysisError: a part of the store is damaged.
    """
    before = _count(warehouse, "trials_all")
    census = sorted(_rows(warehouse, "census"), key=lambda row: (row["model"], rank(row["arm"])))
    return Page(
        arms=sorted({row["arm"] for row in census}, key=rank),
        coverage=_coverage(warehouse),
        asked=_asked(warehouse),
        settings=_settings(warehouse, census),
        sampled=[*sampled(warehouse)],
        families=_families(warehouse),
        propositions=_rows(warehouse, "propositions"),
        breaches=_listing(warehouse, "proposition_1", "Intact caches that decided differently", columns.BREACHES),
        kept=_listing(warehouse, "proposition_2", "Broken caches that kept the effect", columns.PROPOSITION_2),
        num_flips=_count(warehouse, "flips"),
        worked=_worked(warehouse),
        checks=_checks(warehouse),
        mixed=[*mixed_grids(warehouse)],
        # Asked last: what came in while the rest was read.
        is_moving=_count(warehouse, "trials_all") != before,
    )


def _coverage(warehouse: Warehouse) -> list[Table]:
    by_grid, by_model = (_rows(warehouse, view) for view in ("coverage_by_grid", "coverage_by_model"))
    return [
        flat("coverage_by_grid", "Trials of each grid", by_grid, columns.COVERAGE_BY_GRID, ("grid", "study")),
        flat(
            "coverage_by_model",
            "Trials of each model",
            by_model,
            columns.COVERAGE_BY_MODEL,
            ("grid", "study", "model"),
            group="grid",
        ),
    ]


def _asked(warehouse: Warehouse) -> list[Table]:
    runs = _rows(warehouse, "run_records")
    models = ("model", "model_identity", "cache_family", "versions", "device")
    return [
        flat("grids", "What each grid asks for", _rows(warehouse, "grids"), columns.GRIDS, ("grid", "study")),
        flat(
            "run_records",
            "The runs of this store",
            runs[-MAX_RUNS:],
            columns.RUNS,
            ("run_id",),
            num_hidden=max(len(runs) - MAX_RUNS, 0),
        ),
        flat("models", "The models that were loaded", _rows(warehouse, "models"), columns.MODELS, models),
    ]


def _settings(warehouse: Warehouse, census: Sequence[Row]) -> list[Setting]:
    views = ("census_by_strength", "census_by_vehicle", "census_by_situation", "census_by_arm", "isolation")
    found = {view: _rows(warehouse, view) for view in views}
    keys = sorted({tuple(row[name] for name in SETTING) for row in census}, key=str)
    return [
        _setting(
            dict(zip(SETTING, at, strict=True)),
            {view: [row for row in rows if _at(row) == at] for view, rows in (found | {"census": census}).items()},
        )
        for at in keys
    ]


def _setting(row: Row, found: dict[str, list[Row]]) -> Setting:
    census = found["census"]
    judged = {row["model"] for row in census if row["num_judged"]}
    shown = [row for row in census if row["model"] in judged]
    idle = [row for row in census if row["model"] not in judged]
    # One line a model: what cold did says why nothing was judged.
    colds = {row["model"]: row for row in sorted(idle, key=lambda row: row["arm"] == "cold")}
    strength, vehicle, situation = (
        [row for row in found[f"census_by_{axis}"] if row["model"] in judged]
        for axis in ("strength", "vehicle", "situation")
    )
    by_arm = sorted(found["census_by_arm"], key=lambda row: rank(row["arm"]))
    isolation = sorted(found["isolation"], key=lambda row: (row["model"], rank(row["arm"])))
    return Setting(
        row,
        key(row, SETTING),
        flat(
            "census_by_arm",
            "Flips and controls of each arm, over all models",
            by_arm,
            columns.BY_ARM,
            (*SETTING, "arm"),
        ),
        [
            heat.by_level(shown, {"strength": strength, "vehicle": vehicle}, SETTING),
            heat.by_situation(shown, situation, SETTING),
        ],
        _unjudged(list(colds.values())) if colds else None,
        flat(
            "isolation",
            "Isolation of the delta, of the cache (Layer 1) and of the effect (Layer 2)",
            isolation,
            columns.ISOLATION + (columns.FAILED if any(row["failed_checks"] for row in isolation) else ()),
            (*SETTING, "model", "arm"),
            group="model",
        ),
    )


def _unjudged(rows: Sequence[Row]) -> Table:
    caption = "Models with no judged trial, which is not resistance: what one of their arms did"
    return flat("census", caption, rows, columns.UNJUDGED, (*SETTING, "model", "arm"))


def _families(warehouse: Warehouse) -> list[Table]:
    """Layer 1 by kind of cache, where there is more than one."""
    by_cache, by_model = (
        sorted(_rows(warehouse, view), key=lambda row: (str(row["cache_family"]), rank(row["arm"])))
        for view in ("layer1_by_cache", "layer1_by_model")
    )
    if len({row["cache_family"] for row in by_cache}) < 2:
        return []
    families = _rows(warehouse, "families")
    return [
        heat.verdicts("layer1_by_cache", "Layer 1 by kind of cache", by_cache, ("cache_family",)),
        heat.verdicts("layer1_by_model", "Layer 1 by model", by_model, ("cache_family", "model"), group="cache_family"),
        flat(
            "families",
            "What each model’s cache keeps, and each way of aborting leaves",
            families,
            columns.FAMILIES,
            ("study", "model"),
            group="study",
        ),
    ]


def _listing(warehouse: Warehouse, view: str, caption: str, shown: Sequence[Column]) -> Table:
    rows = _rows(warehouse, view, f"limit {MAX_LISTED}")
    num_hidden = max(_count(warehouse, view) - len(rows), 0)
    return flat(view, caption, rows, shown, ("cell_id", "draw"), num_hidden=num_hidden)


def _worked(warehouse: Warehouse) -> list[WorkedCell]:
    chosen = warehouse.sql(f"{SPREAD} limit {MAX_WORKED}").to_pylist()
    chosen.sort(key=lambda row: (row["study"], row["model"], rank(row["arm"]), row["vehicle"], rank(row["strength"])))
    cells = [row["cell_id"] for row in chosen]
    beside = warehouse.sql("from worked_cells where flip_cell_id in (select unnest(?))", [cells]).to_pylist()
    return worked_cells(chosen, beside)


def _checks(warehouse: Warehouse) -> list[Check]:
    questions = {view.name: view.question for view in views()}
    return [Check(name, questions[name], _count(warehouse, name)) for name in names("checks")]


def _at(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SETTING)


def _count(warehouse: Warehouse, view: str) -> int:
    return int(warehouse.sql(f"select count(*) as num_rows from {view}").to_pylist()[0]["num_rows"])


def _rows(warehouse: Warehouse, view: str, ending: str = "") -> list[Row]:
    rows: list[Row] = warehouse.sql(f"from {view} {ending}").to_pylist()
    return rows
