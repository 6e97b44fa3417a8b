"""Coverage adds up, and every missing trial has its reason."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

STATUSES = ("done", "invalid", "unsupported", "error")


def test_planned_is_the_sum_of_the_rest(builder):
    rows = [builder.trial(version=n, status=status) for n, status in enumerate(STATUSES)]
    builder.run([*rows, builder.trial(version=9)])
    builder.record(*rows)
    row = builder.row("from coverage")
    assert row["planned"] == 5
    assert [row[name] for name in (*STATUSES, "missing")] == [1, 1, 1, 1, 1]
    assert builder.rows("from coverage_sums") == []


def test_each_missing_trial_says_why(builder):
    """submitit#1770: the absence of a result is no failure."""
    rows = [
        builder.trial(version=0),
        builder.trial(version=1, is_selected=False),
        builder.trial(version=2, blocked="no weights: repo x"),
        builder.trial(version=3),
        builder.trial(version=4, is_selected=False),
    ]
    builder.run(rows)
    builder.miss(rows[3], "worker lost", sequence=1)
    builder.miss(rows[3], "out of memory", sequence=2)
    builder.miss(rows[2], "an older reason", sequence=1)
    reasons = [row["reason"] for row in builder.rows("select reason from missing_trials order by reason")]
    assert reasons == ["no weights: repo x", "not run", "not selected", "not selected", "out of memory"]
    told = builder.row("select missing_reasons from coverage")["missing_reasons"]
    assert told == "2 not selected; 1 no weights: repo x; 1 not run; 1 out of memory"
    assert builder.row("select missing_reasons from coverage_by_model")["missing_reasons"] == told


def test_a_recorded_trial_is_not_missing_whatever_was_noted_before(builder):
    row = builder.trial()
    builder.store(row)
    builder.miss(row, "worker lost")
    assert builder.rows("from missing_trials") == []
    assert builder.row("select missing, missing_reasons from coverage") == {"missing": 0, "missing_reasons": ""}


def test_a_model_without_weights_stays_in_census_and_coverage(builder):
    builder.run([row | {"blocked": "no weights"} for row in builder.episode(model="seed-oss-36b")])
    row = builder.row("from census where arm = 'stale'")
    assert (row["planned"], row["missing"], row["num_attack"], row["num_judged"]) == (1, 1, 1, 0)


def test_coverage_is_of_each_grid_by_itself(builder):
    row = builder.trial()
    builder.run([row, builder.trial(version=2)], grid="full")
    builder.run([row], grid="smoke")
    builder.record(row)
    assert builder.rows("select grid, planned, done from coverage order by grid") == [
        {"grid": "full", "planned": 2, "done": 1},
        {"grid": "smoke", "planned": 1, "done": 1},
    ]


def test_a_part_is_covered_by_the_trials_it_asks_for(builder):
    shared, own = builder.trial(parts="census,guard"), builder.trial(version=2, parts="guard")
    builder.run([shared, own], grid="full")
    builder.record(shared)
    assert builder.rows("select part, planned, done, missing from coverage_by_part") == [
        {"part": "census", "planned": 1, "done": 1, "missing": 0},
        {"part": "guard", "planned": 2, "done": 1, "missing": 1},
    ]


@pytest.mark.parametrize("parts", ["", None])
def test_a_grid_without_parts_is_its_own_only_one(builder, parts):
    builder.run([builder.trial(parts=parts)], grid="smoke")
    assert builder.rows("select part, planned, missing from coverage_by_part") == [
        {"part": "smoke", "planned": 1, "missing": 1}
    ]


def test_a_plan_from_before_there_were_parts_is_read(builder):
    builder.store(builder.trial())
    for path in (builder.root / "plans").glob("part-*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["parts"]), path)
    assert builder.row("select grid, part, done from coverage_by_part") == {
        "grid": "default",
        "part": "default",
        "done": 1,
    }
    assert builder.rows("from coverage_sums") == []
