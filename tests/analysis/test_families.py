"""One row a model: what each way of aborting leaves in its kind of cache; and the listings around Layer 1."""

from __future__ import annotations

import pytest

MEASURED = {"cache_family": "hybrid", "layer1_tolerance": 1e-5}


def restored(builder, **said):
    return builder.trial(**{"arm": "checkpoint", "layer1_max_diff": 0.0} | MEASURED | said)


def test_each_arm_shows_its_verdict_and_its_largest_distance(builder):
    builder.store(
        builder.trial(arm="stale", layer1="violated", **MEASURED),
        builder.trial(arm="truncate_recorded", layer1="violated", layer1_max_diff=0.2, version=1, **MEASURED),
        builder.trial(arm="truncate_recorded", layer1="violated", layer1_max_diff=0.9, version=2, **MEASURED),
        restored(builder),
    )
    row = builder.row("from families")
    assert (row["study"], row["model"], row["cache_family"], row["num_episodes"]) == ("rollback", "m", "hybrid", 2)
    assert (row["stale"], row["checkpoint"], row["truncate_recorded"]) == ("violated", "intact", "violated")
    assert (row["checkpoint_max_diff"], row["truncate_recorded_max_diff"]) == (0.0, 0.9)
    assert row["layer1_tolerance"] == 1e-5


def test_an_arm_that_did_not_run_has_no_verdict(builder):
    builder.store(restored(builder))
    row = builder.row("from families")
    assert (row["fresh"], row["fresh_max_diff"], row["truncate"], row["why_unsupported"]) == (None, None, None, None)


def test_verdicts_that_differ_between_episodes_are_all_shown(builder):
    cannot = {"status": "unsupported", "layer1": "unsupported", "error": "past the window"}
    builder.store(
        builder.trial(arm="truncate", layer1_max_diff=0.0, version=1),
        builder.trial(arm="truncate", version=2, **cannot),
        builder.trial(arm="truncate", version=3, **cannot),
    )
    row = builder.row("from families")
    assert row["truncate"] == "intact, unsupported"
    assert row["why_unsupported"] == "truncate: past the window"


@pytest.mark.parametrize(
    ("num_committed", "num_branch", "crossed", "emptied"),
    [(5, 4, 0, 0), (5, 5, 0, 0), (5, 6, 1, 0), (10, 1, 1, 0), (11, 1, 0, 0), (5, 10, 1, 1), (11, 10, 0, 1)],
)
def test_a_window_of_ten_is_crossed_by_the_branch_or_emptied_by_it(
    builder, num_committed, num_branch, crossed, emptied
):
    ids = {"committed_ids": [1] * num_committed, "branch_ids": [2] * num_branch}
    builder.store(restored(builder, cache_family="sliding", window_tokens=10, **ids))
    row = builder.row("select num_window_crossed, num_window_emptied, window_tokens from families")
    assert row == {"num_window_crossed": crossed, "num_window_emptied": emptied, "window_tokens": 10}


def test_models_stand_by_cache_family(builder):
    builder.store(
        *(restored(builder, model=name, cache_family=kind) for name, kind in (("a", "sliding"), ("b", "full")))
    )
    assert [row["model"] for row in builder.rows("select model from families")] == ["b", "a"]


def test_proposition_2_lists_a_dirty_cache_that_decides_rightly(builder):
    controls = builder.episode(kind="control", version=2)
    stale = builder.trial(arm="stale", kind="control", layer1="violated", cache_length=9, version=2)
    builder.store(stale, *controls[1:3], *builder.episode(flips=True, cache_length=9))
    assert builder.rows("select arm, kind, cell_id from proposition_2") == [
        {"arm": "stale", "kind": "control", "cell_id": stale["cell_id"]}
    ]


@pytest.mark.parametrize(
    "said",
    [
        {"arm": "text_present", "layer1": "violated", "cache_length": None},
        {"layer1": "intact"},
        {"layer1": "violated", "effect_status": "refused"},
    ],
)
def test_proposition_2_leaves_out_what_promises_nothing_is_clean_or_decides_otherwise(builder, said):
    builder.store(builder.trial(**{"cache_length": 9} | said), builder.trial(arm="cold"))
    assert builder.rows("from proposition_2") == []


def test_proposition_2_asks_competent_episodes_only(builder):
    wrong = {"effect_status": "violation"}
    builder.store(
        builder.trial(layer1="violated", cache_length=9, **wrong),
        builder.trial(arm="cold", layer1="reference", **wrong),
    )
    assert builder.rows("from proposition_2") == []


def test_what_is_only_as_close_as_noise_is_listed_the_closest_to_the_tolerance_first(builder):
    builder.store(
        restored(builder, version=1),
        restored(builder, version=2, layer1_max_diff=1e-8),
        restored(builder, version=3, layer1_max_diff=9e-6),
        restored(builder, version=4, layer1="violated", layer1_max_diff=2e-5),
    )
    assert [row["layer1_max_diff"] for row in builder.rows("from layer1_within_noise")] == [9e-6, 1e-8]
