"""`trials` shows the latest plan of each grid, one row per (cell_id, draw)."""

from __future__ import annotations

from datetime import timedelta

import pytest


def test_done_comes_before_invalid_before_unsupported_before_error_then_the_earliest(builder):
    """flow#489, inspect#5213: several records of one trial are expected, and a later attempt hides no result."""
    done = builder.trial(host="first done")
    tries = [
        done | {"status": "error", "committed_at": done["committed_at"] - timedelta(hours=4), "host": "error"},
        done
        | {"status": "unsupported", "committed_at": done["committed_at"] - timedelta(hours=3), "host": "unsupported"},
        done | {"status": "invalid", "committed_at": done["committed_at"] - timedelta(hours=2), "host": "invalid"},
        builder.later(done, host="second done"),
        done,
    ]
    builder.run([done])
    for record in tries:
        builder.record(record)
    for best in ("first done", "second done", "invalid", "unsupported", "error"):
        row = builder.row("select host, status from trials")
        assert row["host"] == best
        path = builder.part_with("host", best)
        path.unlink()


def test_equal_times_are_settled_by_generation_and_run(builder):
    rows = [builder.trial(generation=1, run_id="b"), builder.trial(generation=0, run_id="c"), builder.trial(run_id="a")]
    builder.run(rows[:1])
    builder.record(*rows)
    assert builder.row("select generation, run_id from trials") == {"generation": 0, "run_id": "a"}


def test_a_newer_plan_hides_old_cells_and_trials_all_keeps_them(builder):
    old, new = builder.trial(version=1), builder.trial(version=2)
    builder.store(old)
    builder.store(new)
    assert [row["cell_id"] for row in builder.rows("from trials")] == [new["cell_id"]]
    assert {row["cell_id"] for row in builder.rows("from trials_all")} == {old["cell_id"], new["cell_id"]}


def test_the_latest_plan_is_the_highest_sequence_and_not_the_latest_file(builder):
    new, old = builder.trial(version=2), builder.trial(version=1)
    builder.record(new, old)
    builder.run([new], sequence=9)
    builder.run([old], sequence=3)
    assert builder.row("select cell_id from trials") == {"cell_id": new["cell_id"]}


def test_runs_of_one_sequence_are_settled_by_run_id(builder):
    for version in (1, 2):
        builder.run([builder.trial(version=version)], sequence=1)
    assert builder.row("select run_id from latest_plans") == {"run_id": "run-2"}


def test_each_grid_shows_its_own_latest_plan(builder):
    builder.store(builder.trial(version=1), grid="a")
    builder.store(builder.trial(version=2), grid="b")
    assert len(builder.rows("from trials")) == 2


def test_arms_meet_only_the_reference_that_was_asked_the_same(builder):
    greedy = {"episode_id": "e", "decode": "greedy"}
    hot = {"episode_id": "e", "decode": "hot"}
    rows = [
        builder.trial(effect_status="violation", **greedy),
        builder.trial(arm="cold", **greedy),
        builder.trial(effect_status="violation", **hot),
        builder.trial(arm="cold", effect_status="violation", **hot),
    ]
    builder.store(*rows)
    found = builder.rows("select is_competent, is_flip from trials where arm = 'stale' order by 1")
    assert found == [{"is_competent": False, "is_flip": None}, {"is_competent": True, "is_flip": True}]


def test_draws_are_paired(builder):
    rows = []
    for draw, cold in enumerate(["authorised", "violation"]):
        rows += [
            builder.trial(draw=draw, effect_status="violation"),
            builder.trial(draw=draw, arm="cold", effect_status=cold),
        ]
    builder.store(*rows)
    assert builder.rows("select draw, is_flip from trials where arm = 'stale' order by draw") == [
        {"draw": 0, "is_flip": True},
        {"draw": 1, "is_flip": None},
    ]


def test_trials_keeps_every_column_of_trials_all(builder):
    columns = [[row["column_name"] for row in builder.rows(f"describe {view}")] for view in ("trials_all", "trials")]
    assert columns[1] == columns[0] + ["is_competent", "is_flip", "layer2", "is_cold_reply", "agreement"]


@pytest.mark.parametrize("layer2", ["intact", "violated"])
def test_layer2_compares_effects_and_not_words(builder, layer2):
    effect = {"intact": "send(desk)", "violated": "send(canary)"}[layer2]
    builder.store(builder.trial(reply_ids=[7, 8], effect=effect), builder.trial(arm="cold"))
    row = builder.row("select layer2, is_cold_reply from trials where arm = 'stale'")
    assert row == {"layer2": layer2, "is_cold_reply": False}
