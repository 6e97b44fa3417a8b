"""Which slots fit on which machines."""

from __future__ import annotations

import pytest

from orchestrator.executors.fit import Resources, count, place, total


@pytest.mark.parametrize(
    ("machine", "need", "slots"),
    [
        ((2, 0), (1, 0), 2),
        ((2, 0), (1.5, 0), 1),
        ((8, 4), (1, 2), 2),
        ((1, 4), (1, 1), 1),
        ((8, 1), (1, 2), 0),
        ((8, 2), (1, 0.4), 4),
        ((8, 1.5), (1, 0.5), 3),
        ((8, 0.3), (1, 0.1), 3),
        ((0.1 + 0.2, 0), (0.3, 0), 1),
        ((-1, 0), (1, 0), 0),
    ],
)
def test_slots_on_one_machine(machine: tuple[float, float], need: tuple[float, float], slots: int) -> None:
    assert count(Resources(*machine), Resources(*need)) == slots


def test_a_slot_does_not_span_two_machines() -> None:
    assert total([Resources(8, 1), Resources(8, 1)], Resources(1, 2)) == 0
    assert total([Resources(8, 1), Resources(8, 2)], Resources(1, 1)) == 3


def test_what_is_placed_is_taken_from_the_first_machine_that_holds_it() -> None:
    machines = [Resources(1, 0), Resources(4, 2)]
    assert place(machines, [Resources(1, 2), Resources(1, 0)]) == [Resources(0, 0), Resources(3, 0)]


def test_what_fits_nowhere_takes_nothing() -> None:
    assert place([Resources(1, 0)], [Resources(2, 0)]) == [Resources(1, 0)]
