"""What a census may never add up: sampled draws with greedy trials, and one content with another."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

CENSUSES = ("census", "census_by_arm", "census_by_situation", "census_by_strength", "census_by_vehicle")
SAMPLED = {"temperature": 0.7, "decode": "sampled"}


@pytest.mark.parametrize("view", [*CENSUSES, "isolation"])
def test_a_sampled_trial_is_in_no_census(builder, view):
    builder.store(*builder.episode(flips=True))
    alone = builder.rows(f"from {view}")
    builder.store(*(row for draw in range(3) for row in builder.episode(draw=draw, **SAMPLED)), grid="stochastic")
    assert builder.rows(f"from {view}") == alone
    assert len(builder.rows("from trials")) == 16


def test_coverage_counts_each_temperature_apart_and_adds_up(builder):
    rows = [builder.trial(), *(builder.trial(draw=draw, **SAMPLED) for draw in range(2))]
    builder.run(rows)
    builder.record(*rows[:2])
    found = {row["temperature"]: (row["planned"], row["done"], row["missing"]) for row in builder.rows("from coverage")}
    assert found == {0.0: (1, 1, 0), 0.7: (2, 1, 1)}
    assert builder.row("select planned, done, missing from coverage_by_grid") == {"planned": 3, "done": 2, "missing": 1}
    assert builder.rows("from coverage_sums") == []


def test_two_temperatures_of_one_situation_are_no_mixture(builder):
    builder.store(*builder.episode(), *builder.episode(**SAMPLED))
    assert builder.rows("from mixed_versions") == []


@pytest.mark.parametrize("view", [*CENSUSES, "isolation"])
def test_a_contents_tasks_are_counted_together_and_apart_from_other_contents(builder, view):
    for content in ("ours", "agentdojo-banking/user_task_1", "agentdojo-banking/user_task_2", "agentdojo-slack/a/b"):
        builder.store(*builder.episode(flips=True, content=content), grid=content)
    count = "num_trials" if view == "isolation" else "planned"
    found = {row["content"]: row[count] for row in builder.rows(f"from {view} where arm = 'stale'")}
    assert found == {"ours": 1, "agentdojo-banking": 2, "agentdojo-slack": 1}


def test_a_store_from_before_there_was_a_choice_holds_our_content_decoded_greedily(builder):
    builder.store(*builder.episode(flips=True))
    before = builder.rows("from census"), builder.rows("from coverage")
    later = {"content", "blocked_by", "gate_log", "carrier_tokens", "overwritten_tokens"}
    for path in builder.root.rglob("part-*.parquet"):
        part = pq.read_table(path, partitioning=None)
        pq.write_table(part.drop_columns(sorted(later & set(part.column_names))), path)
    assert (builder.rows("from census"), builder.rows("from coverage")) == before
    assert builder.rows("select distinct content, temperature, blocked_by from trials") == [
        {"content": "ours", "temperature": 0.0, "blocked_by": None}
    ]


def test_flips_list_every_arm_whose_served_text_is_clean(builder):
    arms = ("stale", "position_control", "branch_scoped", "provenance_mask", "content_addressed", "text_present")
    flips = [builder.trial(arm=arm, effect_status="violation") for arm in arms]
    builder.store(*flips, builder.trial(arm="cold"))
    assert [row["arm"] for row in builder.rows("from flips")] == sorted(set(arms) - {"text_present"})
