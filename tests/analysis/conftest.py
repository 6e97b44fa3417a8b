"""Stores built by hand, part by part, with verdicts that we choose: the analysis is right before the data are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import analysis
from workers import studies
from workers.identity import Identity, canonical, digest
from workers.schema import MISSING, PLAN, RUN, Column, arrow_schema
from workers.studies.rollback import AXES, MEASURES

Row = dict[str, Any]

VEHICLES = ("retrieved_document", "tool_return", "user_turn")
STRENGTHS = ("neutral", "suggestive", "imperative")
SETTING: Row = {
    "surface": "tensor_probe",
    "effect_type": "send_message",
    "policy": "allowlist",
    "guard": False,
    "content": "ours",
    "temperature": 0.0,
}
START = datetime(2026, 1, 1, tzinfo=UTC)
REPLIES = {"authorised": [1], "violation": [2], "refused": [3], "unparseable": [4], "censored": [5]}


def trial(**said: Any) -> Row:
    """A done trial that is authorised and isolated, unless `said` says otherwise.

    `version`, `decode` and `libraries` make another cell.
    """
    row: Row = {"study": "rollback", "model": "m", "arm": "stale", "draw": 0, **SETTING}
    row |= {"vehicle": "user_turn", "strength": "neutral", "kind": "attack", "status": "done"}
    row |= {"carrier_absent": True, "delta_identical": True, "parent_intact": True, "failed_checks": ""}
    row |= {"run_id": "run-1", "generation": 0, "committed_at": START}
    version = said.pop("version", 1)
    row |= said
    place = [row["model"], *(row[axis.name] for axis in AXES), version]
    row.setdefault("episode_id", digest(canonical(place)))
    words = ("1", f"{row['study']}/1", row["model"], row["episode_id"], f"{row['arm']}/1", row.pop("decode", "{}"))
    identity = Identity(*words, row.pop("libraries", ""))
    row = {"identity": identity.text, "cell_id": identity.cell_id} | row
    if row["status"] == "done":
        row.setdefault("effect_status", "authorised")
        row.setdefault("reply_ids", REPLIES.get(row["effect_status"], [9]))
        row.setdefault("effect", {"authorised": "send(desk)", "violation": "send(canary)"}.get(row["effect_status"]))
        row.setdefault("layer1", "reference" if row["arm"] == "cold" else "intact")
    return row


def episode(flips: bool = False, **said: Any) -> list[Row]:
    """Stale, fresh, cold and text_present of one episode; stale and text_present flip together."""
    verdict = "violation" if flips else "authorised"
    broken = {"layer1": "violated", "effect_status": verdict}
    return [
        trial(arm="stale", **broken | said),
        trial(arm="fresh", **said),
        trial(arm="cold", **said),
        trial(arm="text_present", **broken | said),
    ]


def situations() -> Iterator[Row]:
    """The nine of the paper: vehicle × strength."""
    for vehicle, strength in itertools.product(VEHICLES, STRENGTHS):
        yield {"vehicle": vehicle, "strength": strength}


def later(row: Row, minutes: int = 1, **said: Any) -> Row:
    """The same trial recorded once more, later."""
    return row | {"committed_at": row["committed_at"] + timedelta(minutes=minutes)} | said


class StoreBuilder:
    """Writes parts as the orchestrator and the workers do; the functions above come along, for the tests."""

    trial, episode, situations, later = map(staticmethod, (trial, episode, situations, later))

    def __init__(self, root: Path) -> None:
        self.root = root
        self.num_parts = 0
        self.num_runs = 0
        for study in map(studies.get, studies.names()):
            self._write(f"trials/{study.name}", [], arrow_schema(study.name, study.columns), "empty")
        for folder, columns in (("plans", PLAN), ("runs", RUN), ("missing", MISSING)):
            self._write(folder, [], _schema(columns), "empty")

    def record(self, *rows: Row) -> None:
        """Commit trials as one part."""
        self._write("trials/rollback", rows, arrow_schema("rollback", (*AXES, *MEASURES)))

    def run(self, rows: Iterable[Row], grid: str = "default", sequence: int | None = None, **said: Any) -> str:
        """One run whose plan asks for `rows`; a row may say `is_selected` and `blocked`."""
        self.num_runs += 1
        plan_id = f"plan-{self.num_runs}"
        defaults = {"plan_id": plan_id, "grid": grid, "is_selected": True, "blocked": None}
        self._write("plans", [defaults | row for row in rows], _schema((*PLAN, *AXES)))
        run = {
            "run_id": f"run-{self.num_runs}",
            "sequence": sequence or self.num_runs,
            "grid": grid,
            "plan_id": plan_id,
        }
        self._write("runs", [run | {"started_at": START} | said], _schema(RUN))
        return plan_id

    def miss(self, row: Row, reason: str, sequence: int = 1) -> None:
        """Note why a run could not record a trial."""
        self._write("missing", [row | {"reason": reason, "sequence": sequence}], _schema(MISSING))

    def store(self, *rows: Row, grid: str = "default") -> None:
        """Plan and record the same trials."""
        self.run(rows, grid)
        self.record(*rows)

    def part_with(self, column: str, value: Any) -> Path:
        """The part of trials that holds a value."""
        parts = sorted(self.root.glob("trials/*/part-*.parquet"))
        return next(part for part in parts if value in pq.read_table(part, partitioning=None)[column].to_pylist())

    def rows(self, query: str) -> list[Row]:
        """The answer over what was written so far."""
        with analysis.connect(self.root) as warehouse:
            rows: list[Row] = warehouse.sql(query).to_pylist()
        return rows

    def row(self, query: str) -> Row:
        """The answer's one row."""
        (row,) = self.rows(query)
        return row

    def _write(self, folder: str, rows: Iterable[Row], schema: pa.Schema, name: str | None = None) -> None:
        self.num_parts += 1
        place = self.root / folder
        place.mkdir(parents=True, exist_ok=True)
        known = [{name: row.get(name) for name in schema.names} for row in rows]
        pq.write_table(pa.Table.from_pylist(known, schema=schema), place / f"part-{name or self.num_parts}.parquet")


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([(column.name, column.type) for column in columns])


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    """An empty store, to be filled."""
    return StoreBuilder(tmp_path / "results")


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[[str], StoreBuilder]:
    """Empty stores in folders of any name."""
    return lambda folder: StoreBuilder(tmp_path / folder)
