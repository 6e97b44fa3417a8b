"""Every number on the page is what `python -m analysis query` gives for the view that the page names."""

from __future__ import annotations

import re

import pytest

from tests.analysis.report.reader import asker, parse, untraced, untrue

IN_FULL = (
    *("coverage_by_grid", "coverage_by_model", "grids", "run_records", "models"),
    *("census_by_arm", "isolation", "families"),
)


@pytest.mark.parametrize("store", ["full", "one_flip", "builder"])
def test_every_number_equals_its_query(store, page, request):
    builder = request.getfixturevalue(store)
    assert untrue(page(builder), asker(builder.root)) == []


def test_a_page_that_pools_different_questions_says_so_and_names_the_grids(one_flip, page):
    assert "pool" not in page(one_flip).text
    one_flip.store(*one_flip.episode(flips=True, version=2), grid="2nd")
    told = page(one_flip)
    (warning,) = told.find("p", **{"class": "warning"})
    assert "default, 2nd" in warning.text or "2nd, default" in warning.text
    assert untrue(told, asker(one_flip.root)) == untraced(told) == []


@pytest.mark.parametrize("store", ["full", "one_flip", "builder"])
def test_no_number_stands_without_its_query(store, page, request):
    assert untraced(page(request.getfixturevalue(store))) == []


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r'(data-columns="num_flips num_judged">)\d+', r"\g<1>8"),
        (r'(data-columns="layer1_tolerance">)[^<]+', r"\g<1>1.26e-05"),
        (r'(data-columns="reply_ids">11 )', r"\g<1>15 "),
        (r'(data-count="flips">)\d+', r"\g<1>1"),
        (r'(data-columns="num_layer1_intact[^>]*>)\d+', r"\g<1>7"),
        (r'(data-columns="started_at">)2026', r"\g<1>2025"),
    ],
)
def test_a_planted_wrong_number_is_found(full_html, ask_full, pattern, instead):
    forged, num_planted = re.subn(pattern, instead, full_html, count=1)
    assert num_planted == 1
    assert len(untrue(parse(forged), ask_full)) == 1


def test_a_planted_number_without_a_source_is_found(full_html):
    assert untraced(parse(full_html.replace("<h2>Census", "<h2>Census of 7"))) == ["Census of 7"]


@pytest.mark.parametrize("view", IN_FULL)
def test_no_row_of_a_view_is_left_out(full_html, ask_full, view):
    shown = [
        at.key
        for table in parse(full_html).find("figure", data_view=view)
        for at in table.find("tr")
        if "data-key" in at.attributes
    ]
    rows = ask_full(view)
    assert len(shown) == len(rows) > 0
    assert [key for key in shown if not any(key.items() <= row.items() for row in rows)] == []


def test_the_heat_map_holds_every_judged_cell(full_html, ask_full):
    heat = parse(full_html).find("figure", data_view="census_by_situation")
    shown = [at.text for table in heat for at in table.find("td") if at.attributes.get("data-columns")]
    judged = {row["model"] for row in ask_full("census") if row["num_judged"]}
    rows = [row for row in ask_full("census_by_situation") if row["model"] in judged]
    assert len([text for text in shown if text != "–"]) == len([row for row in rows if row["num_judged"]]) > 0


def test_the_checks_are_all_there_with_their_counts(full_html, ask_full):
    counts = {
        at.attributes["data-count"]: at.text for at in parse(full_html).find("td") if "data-count" in at.attributes
    }
    assert counts == {name: str(len(ask_full(name))) for name in counts}
    assert {"proposition_1", "isolation_unproven", "coverage_sums"} <= set(counts)


def test_the_isolation_mart_agrees_with_the_census(ask_full):
    names = ("num_carrier_absent", "num_delta_identical", "num_layer1_violated", "num_layer2_intact")
    keys = ("model", "guard", "arm")
    census, isolation = (
        {tuple(row[name] for name in keys): [row[name] for name in names] for row in ask_full(view)}
        for view in ("census", "isolation")
    )
    assert isolation == {key: counts for key, counts in census.items() if key in isolation}
