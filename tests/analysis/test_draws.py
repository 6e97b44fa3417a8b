"""Sampled draws: k, n and an interval travel together, and a draw is judged by its own cold draw."""

from __future__ import annotations

from statistics import NormalDist

import pytest

SAMPLED = {"temperature": 0.7, "decode": "sampled"}


def drawn(builder, flips, num_draws):
    rows = [row for draw in range(num_draws) for row in builder.episode(flips=draw < flips, draw=draw, **SAMPLED)]
    builder.store(*rows)
    return builder.row("from draws where arm = 'stale'")


@pytest.mark.parametrize(("k", "n"), [(0, 5), (2, 5), (5, 5), (1, 1)])
def test_the_interval_holds_the_rates_that_are_within_its_z_of_k_of_n(builder, k, n):
    """Wilson's bounds are where |p̂ - p| = z √(p(1-p)/n), which is its definition and not its formula."""
    row = drawn(builder, k, n)
    assert (row["num_flips"], row["num_judged"], row["rate"]) == (k, n, k / n)
    z = NormalDist().inv_cdf(0.975)
    for bound in (row["rate_low"], row["rate_high"]):
        assert abs(k / n - bound) == pytest.approx(z * (bound * (1 - bound) / n) ** 0.5, abs=1e-6)
    assert 0 <= row["rate_low"] <= k / n <= row["rate_high"] <= 1
    assert row["rate_low"] < row["rate_high"]


def test_without_a_judged_draw_there_is_no_rate_and_no_interval(builder):
    builder.store(*(builder.trial(draw=draw, effect_status="unparseable", **SAMPLED) for draw in range(2)))
    row = builder.row("from draws")
    assert (row["num_flips"], row["num_judged"], row["planned"], row["num_unparseable"]) == (0, 0, 2, 2)
    assert (row["rate"], row["rate_low"], row["rate_high"]) == (None, None, None)


def test_a_draw_is_compared_with_the_same_draw_of_text_present_and_cold(builder):
    row = drawn(builder, 1, 3)
    assert (row["num_text_equal"], row["num_text_compared"]) == (3, 3)
    assert (row["num_cold_equal"], row["num_cold_compared"]) == (2, 3)


def test_a_draw_whose_own_cold_draw_is_incompetent_is_not_judged(builder):
    rows = [builder.trial(draw=draw, effect_status="violation", **SAMPLED) for draw in range(2)]
    colds = [
        builder.trial(arm="cold", draw=draw, effect_status=verdict, **SAMPLED)
        for draw, verdict in enumerate(("authorised", "unparseable"))
    ]
    builder.store(*rows, *colds)
    row = builder.row("from draws where arm = 'stale'")
    assert (row["num_flips"], row["num_judged"], row["num_competent"], row["num_attack"]) == (1, 1, 1, 2)


def test_missing_draws_are_covered_and_temperatures_are_apart(builder):
    rows = [builder.trial(draw=draw, **SAMPLED) for draw in range(3)]
    warm = builder.trial(temperature=0.3, decode="cooler")
    builder.run([*rows, warm])
    builder.record(rows[0], warm)
    found = {row["temperature"]: (row["planned"], row["done"], row["missing"]) for row in builder.rows("from draws")}
    assert found == {0.7: (3, 1, 2), 0.3: (1, 1, 0)}


def test_a_greedy_trial_is_no_draw(builder):
    builder.store(*builder.episode(flips=True))
    assert builder.rows("from draws") == []


def test_what_a_greedy_cold_trial_did_says_nothing_of_a_missing_draw(builder):
    greedy = builder.episode()
    missing = builder.episode(**SAMPLED)
    builder.run([*greedy, *missing])
    builder.record(*greedy)
    found = builder.rows("from draws")
    assert {(row["missing"], row["num_competent"], row["num_competence_known"]) for row in found} == {(1, 0, 0)}


@pytest.mark.parametrize("lost", ["missing", "error", "invalid"])
def test_a_rate_carries_what_the_draws_that_are_not_observed_could_make_of_it(builder, lost):
    """Between none and all of them flipping; those of an incompetent episode could not have flipped."""
    rows = [row for draw in range(4) for row in builder.episode(flips=draw < 1, draw=draw, **SAMPLED)]
    gone = [row for row in rows if row["arm"] == "stale" and row["draw"] >= 2]
    builder.run(rows)
    builder.record(*(row for row in rows if row not in gone))
    if lost != "missing":
        builder.record(*(row | {"status": lost, "effect_status": None, "effect": None} for row in gone))
    row = builder.row("from draws where arm = 'stale'")
    assert (row["num_flips"], row["num_judged"], row["num_unobserved"]) == (1, 2, 2)
    assert (row["rate_least"], row["rate_most"]) == (1 / 4, 3 / 4)


def test_nothing_is_unobserved_where_all_is_there_incompetent_or_unsupported(builder):
    rows = [row for draw in range(2) for row in builder.episode(flips=True, draw=draw, **SAMPLED)]
    cold = [row for row in rows if row["arm"] == "cold"]
    stale = [row for row in rows if row["arm"] == "stale"]
    others = [row for row in rows if row not in cold and row not in stale]
    builder.run(rows)
    builder.record(cold[0], cold[1] | {"effect_status": "unparseable"}, *others)
    builder.record(stale[0] | {"status": "unsupported", "effect_status": None, "effect": None})
    row = builder.row("from draws where arm = 'stale'")
    assert (row["missing"], row["num_unobserved"]) == (1, 0)


def test_a_draw_without_its_cold_draw_may_still_be_judged(builder):
    rows = builder.episode(flips=True, draw=0, **SAMPLED)
    builder.run(rows)
    builder.record(*(row for row in rows if row["arm"] != "cold"))
    row = builder.row("from draws where arm = 'stale'")
    assert (row["num_judged"], row["num_unobserved"], row["rate_least"], row["rate_most"]) == (0, 1, 0, 1)
