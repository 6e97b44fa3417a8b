"""Every check finds the fault that it is for, and none where there is none."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from analysis.__main__ import main
from analysis.views import names

PLANTED = {
    "proposition_1": {"reply_ids": [9, 9]},
    "isolation_unproven": {"carrier_absent": False},
    "unknown_verdicts": {"effect_status": "safe", "reply_ids": [1]},
    "layer1_implausible": {"layer1": "violated"},
}


def healthy(builder):
    return [row for kind in ("attack", "control") for row in builder.episode(flips=kind == "attack", kind=kind)]


def test_a_healthy_store_has_no_fault(builder):
    builder.store(*healthy(builder))
    assert {name: builder.rows(f"from {name}") for name in names("checks")} == {name: [] for name in names("checks")}
    assert main(["--store", str(builder.root), "checks"]) == 0


@pytest.mark.parametrize("check", PLANTED)
def test_a_planted_fault_is_found_by_its_check_alone(builder, check, capsys):
    row = builder.trial(arm="fresh", **PLANTED[check])
    builder.store(row, builder.trial(arm="cold"))
    found = {name: [hit["arm"] for hit in builder.rows(f"from {name}")] for name in names("checks")}
    assert found == {name: ["fresh"] if name == check else [] for name in names("checks")}
    assert main(["checks", "--store", str(builder.root)]) == 3
    assert check in capsys.readouterr().out


@pytest.mark.parametrize(
    "fault",
    [
        {"delta_identical": False},
        {"delta_identical": None},
        {"parent_intact": False},
        {"failed_checks": "carrier_in_delta"},
    ],
)
def test_each_isolation_fault_of_a_done_trial_is_found(builder, fault):
    builder.store(builder.trial(**fault))
    assert len(builder.rows("from isolation_unproven")) == 1


@pytest.mark.parametrize(
    "impossible",
    [
        {"arm": "stale", "layer1": "intact"},
        {"arm": "text_present", "layer1": "intact"},
        {"arm": "checkpoint", "layer1": "violated"},
        {"arm": "branch_scoped", "layer1": "violated"},
        {"arm": "truncate", "cache_family": "recurrent", "layer1_max_diff": 0.0},
        {"arm": "truncate_recorded", "cache_family": "hybrid", "layer1_max_diff": 0.0},
    ],
)
def test_a_layer_1_that_cannot_be_is_found(builder, impossible):
    builder.store(builder.trial(**impossible))
    assert len(builder.rows("from layer1_implausible")) == 1


@pytest.mark.parametrize(
    "possible",
    [
        {"arm": "stale", "layer1": "violated"},
        {"arm": "stale", "layer1": None, "status": "error"},
        {"arm": "truncate", "cache_family": "full", "layer1_max_diff": 0.0},
        {"arm": "truncate_recorded", "cache_family": "hybrid", "layer1": "violated", "layer1_max_diff": 0.9},
        {"arm": "truncate_recorded", "cache_family": "hybrid", "layer1_max_diff": 1e-8},
        {"arm": "truncate", "cache_family": "hybrid", "layer1": "unsupported", "status": "unsupported"},
    ],
)
def test_a_layer_1_that_can_be_is_left_alone(builder, possible):
    builder.store(builder.trial(**possible))
    assert builder.rows("from layer1_implausible") == []


def test_an_invalid_trial_is_what_a_failed_check_should_be(builder):
    builder.store(builder.trial(status="invalid", carrier_absent=False, failed_checks="carrier_in_delta"))
    assert builder.rows("from isolation_unproven") == []


@pytest.mark.parametrize("verdict", [{"effect_status": "violation"}, {"layer1": "intact"}, {"layer1": "violated"}])
def test_a_verdict_of_an_invalid_trial_is_found(builder, verdict):
    builder.store(builder.trial(status="invalid", failed_checks="storage_shared", **verdict))
    assert len(builder.rows("from verdict_not_done")) == 1


def test_stale_may_differ_from_cold(builder):
    builder.store(*builder.episode(flips=True))
    assert builder.rows("from proposition_1") == []


@pytest.mark.parametrize("axis", ["vehicle", "strength", "kind", "guard", "arm", "model", "episode_id"])
def test_a_row_stored_under_other_axes_than_planned_is_found(builder, axis):
    row = builder.trial()
    builder.run([row])
    builder.record(row | {axis: True if axis == "guard" else "other"})
    assert builder.row("select differing from axes_disagree") == {"differing": axis}


def test_two_versions_of_one_situation_are_found(builder):
    builder.store(builder.trial(version=1), grid="a")
    builder.store(builder.trial(version=2), grid="b")
    assert builder.row("select num_cells, grids from mixed_versions") == {"num_cells": 2, "grids": "a, b"}


def test_a_status_that_no_count_knows_breaks_the_sum(builder):
    builder.store(builder.trial(status="finished"))
    assert builder.row("select planned, done from coverage_sums") == {"planned": 1, "done": 0}
    assert len(builder.rows("from unknown_verdicts")) == 1


def test_no_trial_is_ever_shown_twice(builder):
    row = builder.trial()
    builder.run([row])
    builder.run([row], grid="full")
    builder.record(row, row)
    assert len(builder.rows("from trials")) == 1
    assert builder.rows("from duplicate_trials") == []


def test_parts_from_before_an_axis_answer_every_check(builder):
    builder.store(*builder.episode())
    for part in (*builder.root.glob("trials/*/part-*"), *builder.root.glob("plans/part-*")):
        table = pq.read_table(part, partitioning=None)
        older = [name for name in table.column_names if name != "content"]
        pq.write_table(table.select(older), part)
    assert {name: builder.rows(f"from {name}") for name in names("checks")} == {name: [] for name in names("checks")}
    assert builder.row("select distinct content from trials") == {"content": "ours"}
