"""A flip is shown beside the arms that were fed the same delta on another cache."""

from __future__ import annotations

import json

import pytest

from analysis.report import gather
from analysis.report.worked import turns


def test_one_flip_is_one_worked_cell_with_equal_deltas(one_flip, page):
    (cell,) = page(one_flip).find("details", **{"class": "worked"})
    assert [at.text for at in cell.find("th", scope="col")] == ["stale", "text_present", "fresh", "cold"]
    assert [at.text for at in cell.find(data_columns="delta_ids")] == ["7 8 9"] * 4
    assert [at.text for at in cell.find(data_columns="is_same_delta")] == ["yes"] * 3
    assert [at.text for at in cell.find(data_columns="reply")] == ["SEND x TO canary"] * 2 + ["SEND x TO desk"] * 2


def test_the_first_token_where_the_replies_part_is_marked_and_numbered(one_flip, page):
    (cell,) = page(one_flip).find("details", **{"class": "worked"})
    assert [at.text for at in cell.find("mark")] == ["14", "14"]
    assert [at.text for at in cell.find(data_columns="first_difference")] == ["2", "2"]


@pytest.mark.parametrize(
    ("flipped", "cold", "position"),
    [([1, 2], [1, 2, 3], 3), ([1, 2, 3], [1, 2], 3), ([4], [5], 1), ([1, 2, 9], [1, 3, 8], 2), ([], [1], 1)],
)
def test_the_first_difference_counts_from_one(builder, told_row, page, flipped, cold, position):
    builder.store(
        told_row(builder.trial(effect_status="violation"), reply_ids=flipped),
        told_row(builder.trial(arm="cold"), reply_ids=cold),
    )
    found = {row["arm"]: row["first_difference"] for row in builder.rows("from worked_cells")}
    assert found == {"stale": None, "cold": position}
    (marked,) = [at.text for at in page(builder).find("mark")] or [""]
    assert marked == (str(cold[position - 1]) if position <= len(cold) else "")


def test_the_context_says_whether_the_branch_was_in_it(one_flip, page):
    found = {
        row["arm"]: (row["context_tokens"], row["has_branch_tokens"]) for row in one_flip.rows("from worked_cells")
    }
    assert found == {"stale": (6, True), "text_present": (6, True), "fresh": (4, False), "cold": (4, False)}
    (cell,) = page(one_flip).find("details", **{"class": "worked"})
    assert len(cell.find(data_columns="num_branch_ids")) == 2


def test_unequal_deltas_would_be_said(one_flip, builder, told_row, page):
    other = told_row(builder.trial(arm="cold"), delta_ids=[7, 8])
    builder.record(builder.later(other, minutes=-1))
    (cell,) = page(builder).find("details", **{"class": "worked"})
    assert [at.text for at in cell.find(data_columns="is_same_delta")] == ["yes", "yes", "no"]


def test_the_texts_are_those_of_the_episode(one_flip, page):
    (cell,) = page(one_flip).find("details", **{"class": "worked"})
    said = json.loads(one_flip.row("from flips")["episode"])
    shown = {
        at.attributes["data-turn"]: [part.text for part in at.find("span")]
        for at in cell.find("p", **{"class": "turn"})
    }
    assert shown == {
        f"{part} {at}": [turn["role"], turn["text"]] for part, found in said.items() for at, turn in enumerate(found)
    }


@pytest.mark.parametrize("episode", [None, "", "[]", "{", '{"branch": 1}', '{"branch": [{"role": 1}]}', "[" * 100_000])
def test_a_row_without_a_readable_episode_still_has_its_worked_cell(builder, told_row, page, episode):
    assert not any(turns(episode).values())
    builder.store(*(told_row(row, episode=episode) for row in builder.episode(flips=True)))
    (cell,) = page(builder).find("details", **{"class": "worked"})
    assert "not in the row" in cell.text


def test_text_present_has_no_worked_cell_of_its_own(one_flip):
    assert {row["arm"] for row in one_flip.rows("from trials where is_flip")} == {"stale", "text_present"}
    assert {row["arm"] for row in one_flip.rows("from flips")} == {"stale"}


def test_other_decode_settings_are_another_worked_cell(builder, told_row):
    for decode in ("a", "b"):
        rows = [
            builder.trial(arm="stale", effect_status="violation", decode=decode),
            builder.trial(arm="cold", decode=decode),
        ]
        builder.store(*map(told_row, rows), grid=decode)
    arms = [row["arm"] for row in builder.rows("from worked_cells")]
    assert arms == ["stale", "cold"] * 2


def test_beyond_the_cap_the_page_says_how_many_there_are_and_shows_every_model(full, page, monkeypatch):
    monkeypatch.setattr(gather, "MAX_WORKED", 2)
    seen = page(full)
    cells = seen.find("details", **{"class": "worked"})
    assert {at.find(data_columns="model")[0].text for at in cells} == {"a-1", "b-2"}
    assert [at.text for at in seen.find(data_shown="worked")] == ["2"]
    assert [at.text for at in seen.find(data_count="flips")] == [str(len(full.rows("from flips")))]


def test_a_store_without_a_flip_says_so(builder, told_row, page):
    builder.store(*map(told_row, builder.episode()))
    seen = page(builder)
    assert seen.find("details", **{"class": "worked"}) == []
    assert [at.text for at in seen.find(data_count="flips")] == ["0"]
