"""Counts, rate and remaining time, by hand."""

from __future__ import annotations

import pytest

from orchestrator.listener import Start
from orchestrator.tracking.tally import Tally
from tests.orchestrator.test_progress import Clock, receipt, start


def begun(to_run: dict[str, int]) -> tuple[Tally, Clock]:
    clock = Clock()
    tally = Tally(clock)
    tally.start(start(to_run))
    return tally, clock


def test_nothing_is_known_before_the_first_block() -> None:
    tally, clock = begun({"m": 10})
    tally.slot_ready("m", 5)
    clock.now += 60
    assert (tally.per_minute, tally.eta_s) == (None, None)


def test_work_left_is_shared_by_the_slots_and_in_flight_work_counts() -> None:
    """orion#1031: running trials were not in the remaining time."""
    tally, clock = begun({"m": 100})
    clock.now += 50
    tally.slot_ready("m", 50)
    tally.slot_ready("m", 50)
    clock.now += 10
    tally.add(receipt("a"))
    tally.add(receipt("b"))
    assert tally.per_minute == pytest.approx(120)
    assert tally.eta_s == pytest.approx(80 / 2)
    clock.now += 4
    assert tally.eta_s == pytest.approx(36)
    clock.now += 1000  # a stalled run is not one that is nearly done
    assert tally.eta_s == pytest.approx(30)


def test_loading_between_models_is_left_out() -> None:
    tally, clock = begun({"m": 10, "n": 10})
    clock.now += 30
    tally.slot_ready("m", 30)
    clock.now += 10
    tally.add(receipt("a"))
    clock.now += 90
    tally.slot_ready("n", 90)
    clock.now += 10
    tally.add(receipt("b", model="n"))
    assert tally.per_minute == pytest.approx(60)
    assert tally.eta_s == 0


def test_a_slow_model_on_one_slot_decides() -> None:
    tally, clock = begun({"slow": 20, "quick": 20})
    tally.slot_ready("slow", 0)
    tally.slot_ready("quick", 0)
    clock.now += 100
    tally.add(receipt("a", model="slow", wall_s=100))
    tally.add(receipt("b", model="quick", wall_s=1))
    assert tally.eta_s == pytest.approx(100)


def test_a_block_counts_once_and_a_retried_trial_is_no_gain() -> None:
    tally, _ = begun({"m": 10})
    assert tally.add(receipt("a"))
    assert not tally.add(receipt("a", is_first=False))
    assert tally.num_done == 10
    again = Tally(Clock())
    again.start(Start("r", "g", "s", "e", {"m": 10}, {"m": 10}, {"m": 3}, {}))
    assert again.recorded("m") == 7
    again.add(receipt("a", num=3))
    assert again.recorded("m") == 10
