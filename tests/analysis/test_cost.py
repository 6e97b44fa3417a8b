"""Prefill time as a curve, and what an abort takes from one tenant or from all."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.cost.flush import losses, price
from analysis.cost.prefill import PAPER, Curve, Point, fit
from analysis.errors import AnalysisError
from orchestrator.__main__ import main as orchestrate

LENGTHS = (64, 128, 256, 512, 768)
sizes = st.integers(1, 10**6)


def points(*coefficients: float, lengths: tuple[int, ...] = LENGTHS) -> list[Point]:
    """Times that lie on a curve, of coefficients that floats hold exactly."""
    return [Point(n, sum(one * n**power for power, one in enumerate(coefficients))) for n in lengths]


def test_a_line_is_found_again_and_is_not_taken_for_a_parabola() -> None:
    found = fit(points(16.5, 0.125))
    assert found.curve.coefficients == (16.5, 0.125)
    assert (found.r2, found.errors_ms) == (1, (0, 0))
    assert (found.lengths, found.num_points) == (LENGTHS, 5)


def test_a_parabola_is_found_again_and_foretells_what_a_line_does_not() -> None:
    found = fit(points(16.5, 0.125, 2**-10))
    assert found.curve.coefficients == (16.5, 0.125, 2**-10)
    assert found.errors_ms[1] == 0
    assert found.errors_ms[0] is not None
    assert found.errors_ms[0] > 0


def test_one_more_coefficient_is_not_taken_where_it_foretells_worse() -> None:
    """A parabola always lies closer to the points it is fitted to; alternating noise it follows off the road."""
    noisy = [Point(n, ms + (8 if index % 2 else -8)) for index, (n, ms) in enumerate(points(16.5, 0.125))]
    found = fit(noisy)
    line, parabola = found.errors_ms
    assert line is not None
    assert parabola is not None
    assert line < parabola
    assert len(found.curve.coefficients) == 2


def test_a_repeat_of_the_left_out_length_does_not_give_it_away() -> None:
    once = fit(points(16.5, 0.125, 2**-10))
    assert fit(points(16.5, 0.125, 2**-10) * 3).errors_ms == pytest.approx(once.errors_ms)


def test_r2_is_the_share_of_the_variance_and_nothing_where_nothing_varies() -> None:
    """Residuals ±1 about a flat line, whose mean they leave alone: nothing is explained."""
    flat = [Point(n, 10 + sign) for n in (64, 128) for sign in (-1, 1)]
    assert fit(flat).r2 == 0
    assert fit(points(16.5)).r2 is None


def test_few_lengths_leave_nothing_out_and_one_fits_nothing() -> None:
    assert fit(points(1, 2, lengths=(64, 128))).errors_ms == (None, None)
    assert fit(points(1, 2, lengths=(64, 128, 256))).errors_ms == (0, None)
    with pytest.raises(AnalysisError, match="at least two lengths, there is 1"):
        fit(points(1, 2, lengths=(64,)))


@pytest.mark.parametrize("curve", [PAPER, Curve((0.1, 0.3, 0.7))])
@given(tenants=st.integers(1, 200), tokens=sizes)
def test_global_over_local_is_the_number_of_tenants_exactly(curve: Curve, tenants: int, tokens: int) -> None:
    assert price(curve, [tokens] * tenants).ratio == tenants


@given(tokens=sizes)
def test_one_tenant_ties(tokens: int) -> None:
    alone = price(PAPER, [tokens])
    assert alone.local_ms == alone.global_ms == Fraction(16.17) + Fraction(0.0127) * tokens
    assert (alone.num_hit_local, alone.num_hit_global) == (0, 0)


@given(tokens=st.lists(sizes, min_size=1, max_size=50), data=st.data())
def test_a_flush_takes_every_other_tenants_cache_and_a_local_restore_none(
    tokens: list[int], data: st.DataObject
) -> None:
    aborting = data.draw(st.integers(0, len(tokens) - 1))
    found = price(PAPER, tokens, aborting)
    assert (found.num_hit_local, found.num_hit_global) == (0, len(tokens) - 1)
    (own,) = losses(tokens, aborting, "local", PAPER)
    assert (own.tenant, own.num_tokens) == (aborting, tokens[aborting])


def test_unequal_tenants_each_lose_what_they_held() -> None:
    """The ratio is then no number of tenants: a small session's abort is dear to the large ones."""
    curve, tokens = Curve((0, 1)), [10, 0, 30, 60]
    assert [(loss.tenant, loss.ms) for loss in losses(tokens, 0, "global", curve)] == [(0, 10), (2, 30), (3, 60)]
    assert (price(curve, tokens, 0).ratio, price(curve, tokens, 3).ratio) == (10, Fraction(100, 60))
    assert price(curve, tokens, 0).num_hit_global == 2
    with pytest.raises(AnalysisError, match="nothing to restore"):
        price(curve, tokens, 1)


def test_a_curve_that_is_not_positive_prices_nothing() -> None:
    with pytest.raises(AnalysisError, match="no prefill takes that"):
        Curve((5, -1)).ms(5)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cost grid, without a model: its times are real and mean nothing."""
    store = tmp_path_factory.mktemp("cost") / "results"
    said = ["+grid=cost", "model=scripted", "executor=inline", "tracking=off", f"store.root={store}", "--quiet"]
    assert orchestrate(said) == 0
    return store


@pytest.fixture
def ask(root: Path, capsys: pytest.CaptureFixture[str]):
    def asked(*words: str) -> tuple[int, str, str]:
        code = main(["--store", str(root), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


def table(ask, *words: str) -> list[dict[str, str]]:
    code, out, err = ask(*words, "--format", "csv")
    assert (code, err) == (0, "")
    return list(csv.DictReader(io.StringIO(out)))


def test_restore_costs_has_a_row_an_arm_and_length_and_calls_no_one_pass_a_restore(ask) -> None:
    rows = table(ask, "query", "restore_costs")
    assert {row["arm"]: sum(one["arm"] == row["arm"] for one in rows) for row in rows} == dict.fromkeys(
        ("fresh", "truncate", "checkpoint", "cold"), 6
    )
    for row in rows:
        assert row["num_done"] == "3"
        assert row["recomputed_tokens"] == (row["num_tokens"] if row["arm"] == "fresh" else "0")
        is_restored = row["arm"] != "cold"
        assert all(bool(row[name]) == is_restored for name in ("restore_ms_q1", "restore_ms", "restore_ms_q3"))
        if is_restored:
            assert float(row["restore_ms_q1"]) <= float(row["restore_ms"]) <= float(row["restore_ms_q3"])


def test_each_repeat_of_a_length_is_committed_as_soon_as_it_is_measured(ask) -> None:
    """lmms-eval#852: a run that is stopped keeps what it had measured."""
    words = "select count(*) as num_trials from record_parts group by part order by all"
    assert [row["num_trials"] for row in table(ask, "sql", words)] == ["4"] * 18


def test_no_check_finds_a_fault_in_the_cost_grid(ask) -> None:
    """Lengths and repeats are axes of this study, and no two versions of one situation."""
    assert ask("checks")[0] == 0


def test_it_prices_the_longest_length_measured_and_says_what_lies_beyond(ask) -> None:
    lengths = sorted({int(row["num_tokens"]) for row in table(ask, "query", "restore_costs")})
    assert [row["num_tokens"] for row in table(ask, "cost")] == [str(lengths[-1])] * 3
    rows = table(ask, "cost", "--tokens", f"{lengths[0]},{lengths[-1] + 1}", "--tenants", "5")
    assert [row["is_extrapolated"] for row in rows] == ["False", "True"]
    assert [row["global_over_local"] for row in rows] == ["5.0", "5.0"]
    code, out, _ = ask("cost", "--tokens", str(lengths[-1] + 1))
    assert code == 0
    assert "an extrapolation" in out
    assert f"18 prefills of 6 lengths, {lengths[0]} to {lengths[-1]} tokens" in out
    assert "R² " in out


def test_the_papers_ratios_come_from_its_coefficients_and_its_milliseconds_are_not_claimed(tmp_path, capsys) -> None:
    """Without any store. The lengths are ours: the paper prints none."""
    asked = ["--store", str(tmp_path / "none"), "cost", "--coefficients", "paper", "--tokens", "1000"]
    assert main([*asked, "--tenants", "1,32,64"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line.startswith("paper")]
    assert [(row[1], row[5], row[6:]) for row in rows] == [
        ("1", "1", ["0", "/", "0"]),
        ("32", "32", ["0", "/", "31"]),
        ("64", "64", ["0", "/", "63"]),
    ]
    assert "no millisecond below is a figure of arXiv 2608.15939" in out


def test_coefficients_of_ones_own_are_taken(ask) -> None:
    (row,) = table(ask, "cost", "--coefficients", "10,2,1", "--tokens", "3", "--tenants", "4")
    assert (row["basis"], float(row["local_ms"]), float(row["global_ms"])) == ("given", 25, 100)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--coefficients", "paper"], "the paper does not print those of its regimes"),
        (["--coefficients", "papr"], "unknown coefficients 'papr', did you mean 'paper'?"),
        (["--coefficients", "1,inf"], "is not two or three finite numbers"),
        (["--coefficients", "1"], "is not two or three finite numbers"),
        (["--coefficients", "1,-1", "--tokens", "5"], "no prefill takes that"),
        (["--tenants", "0"], "'0' is not a list of numbers from 1 to 100000"),
        (["--tokens", "1e3"], "'1e3' is not a list of numbers"),
    ],
)
def test_a_wrong_command_is_one_line(ask, words: list[str], said: str) -> None:
    code, out, err = ask("cost", *words)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_store_without_the_grid_says_how_to_get_it(builder, capsys) -> None:
    builder.store(*builder.episode())
    assert main(["--store", str(builder.root), "cost"]) == 1
    assert "run `python -m orchestrator +grid=cost`" in capsys.readouterr().err
