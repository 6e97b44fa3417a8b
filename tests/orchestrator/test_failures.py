"""What the schedule makes of each class of failure, on a cluster made of numbers (DESIGN §4.7)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.executors.base import FailureClass
from orchestrator.executors.fit import Resources
from orchestrator.history import BUDGETS
from tests.orchestrator.simulated import Simulated, episodes, make_blocks, make_job, trials
from tests.orchestrator.test_schedule import Told, play
from workers.block import Block

LOST, BUG, HUNG = FailureClass.LOST, FailureClass.BUG, FailureClass.HUNG
MEMORY, PREEMPTED = FailureClass.MEMORY, FailureClass.PREEMPTED
ONE = Resources(1, 0)
Where = Callable[[int, Block | None], FailureClass | None]


def over(trial: tuple[str, int], failure: FailureClass) -> Any:
    """A fate: whoever meets the trial fails."""
    return lambda _, block: failure if block is not None and trial in trials([block]) else None


def on(machine: int, failure: FailureClass, *names: str) -> Where:
    """A fate: a block with one of these episodes, or any, fails on that machine."""
    return lambda at, block: (
        failure if at == machine and block is not None and (not names or set(names) & set(episodes(block))) else None
    )


@pytest.mark.parametrize("failure", [LOST, BUG])
@given(num_episodes=st.integers(1, 40), num_arms=st.integers(1, 8), data=st.data())
def test_a_poison_cell_is_found_alone_in_logarithmic_attempts_and_the_rest_is_recorded(
    failure: FailureClass, num_episodes: int, num_arms: int, data: st.DataObject
) -> None:
    """llama-cpp-python#997, inspect#913: a crash ends its worker, is tried again, and not for ever."""
    blocks = make_blocks("a", 1, num_episodes, num_arms)
    everything = list(trials(blocks))
    poison = data.draw(st.sampled_from(everything))
    sim = Simulated([ONE], over(poison, failure))
    outcome = play({"a": blocks}, sim)
    assert outcome.missing == {}
    assert sim.recorded == Counter(dict.fromkeys(set(everything) - {poison}, 1))
    assert sim.quarantined.keys() == {poison}
    grounds, size = sim.quarantined[poison], len(everything)
    tried = [block for _, block in sim.tried if poison in trials([block])]
    assert (grounds.failure, grounds.attempts) == (failure.value, len(tried))
    assert [block.attempt for block in tried] == list(range(1, len(tried) + 1))
    # The whole block until it is halved; then by halving to the cell.
    until_alone = next(i for i, block in enumerate(tried) if block.num_trials == 1)
    whole = BUDGETS[failure].whole - 1 if size > 1 else 0
    assert until_alone <= whole + math.ceil(math.log2(size))
    assert len(tried) - until_alone <= BUDGETS[failure].alone


def test_a_lost_trial_says_its_class_its_attempts_and_the_last_words() -> None:
    blocks = make_blocks("a", 1, num_arms=1)
    sim, told = Simulated([ONE], over(next(trials(blocks)), LOST)), Told()
    play({"a": blocks}, sim, told)
    (grounds,) = sim.quarantined.values()
    assert str(grounds) == "worker lost 3 times: planted lost"
    (receipt,) = (entry[0] for entry in told.of("block_done"))
    assert receipt.statuses == {"error": 1}


def test_budgets_of_the_classes_are_separate() -> None:
    """Two losses and a bug are not three losses."""
    falls = iter([LOST, BUG, LOST])
    sim = Simulated([ONE], lambda _, block: next(falls, None) if block is not None else None)
    assert play({"a": make_blocks("a", 1, num_arms=1)}, sim).missing == {}
    assert sim.quarantined == {}
    assert list(sim.recorded.values()) == [1]
    assert [block.attempt for _, block in sim.tried] == [1, 2, 3, 4]


def test_the_first_retry_goes_elsewhere() -> None:
    """Although where it failed a slot is free long before. ray#65862: it was made where it had failed."""
    sim = Simulated([ONE, ONE], load_s=0.01)
    sim.place_fate = on(0, LOST, "a/0/0")
    sim.takes_s = lambda block: 0.1 if "a/0/0" in episodes(block) else 1.0
    play({"a": make_blocks("a", 8)}, sim)
    assert [machine for machine, block in sim.tried if episodes(block) == ["a/0/0"]] == [0, 1]
    assert sim.quarantined == {}


def test_where_there_is_one_place_the_retry_is_made_there() -> None:
    falls = iter([LOST])
    sim = Simulated([Resources(2, 0)], lambda _, block: next(falls, None) if block is not None else None)
    assert play({"a": make_blocks("a", 4)}, sim).missing == {}
    assert len(sim.recorded) == 8


def test_a_device_that_fails_what_others_finish_is_cordoned_and_reported() -> None:
    """ray#54576: a bad machine went on taking work."""
    sim, told = Simulated([ONE, ONE, ONE]), Told()
    sim.place_fate = on(1, BUG)
    outcome = play({"a": make_blocks("a", 60)}, sim, told)
    assert (outcome.missing, sim.quarantined) == ({}, {})
    assert Counter(machine for machine, _ in sim.tried)[1] <= 4
    lines = [message for _, message in told.of("problem") if "cordoned" in message]
    assert len(lines) == 1
    assert lines[0].startswith("machine 1 is cordoned")


def test_a_device_is_not_cordoned_for_blocks_that_fail_everywhere_nor_for_losses_between_blocks_done() -> None:
    falls = iter([LOST, None, None] * 8)
    everywhere, now_and_then = Simulated([ONE, ONE]), Simulated([ONE, ONE])
    everywhere.place_fate = lambda _, block: LOST if block and set(episodes(block)) & {"a/1/0", "a/2/0"} else None
    now_and_then.place_fate = lambda at, block: next(falls, None) if at == 0 and block else None
    for sim in (everywhere, now_and_then):
        told = Told()
        play({"a": make_blocks("a", 40)}, sim, told)
        assert not [message for _, message in told.of("problem") if "cordoned" in message]


def test_a_cordoned_device_is_better_than_none() -> None:
    """The others go away in the middle; nothing waits for ever."""
    sim = Simulated([ONE, ONE])
    fails = [BUG] * 3
    sim.place_fate = lambda at, block: fails.pop() if at == 1 and block and fails else None
    sim.before_wait = lambda s: s.lose_machine(0) if len(s.recorded) >= 24 and s.machines[0] == ONE else None
    assert play({"a": make_blocks("a", 30)}, sim).missing == {}
    assert len(sim.recorded) == 60


def test_what_needs_more_memory_gets_a_larger_slot_and_the_rest_keeps_its_own() -> None:
    """ray#45257: a retry had the memory that had been too little."""
    sim = Simulated([Resources(4, 0)])
    sizes: list[float] = []

    def fate(_: str, block: Block | None) -> FailureClass | None:
        if block is None or "a/3/0" not in episodes(block):
            return None
        sizes.append(max(slot.job.model.device.num_cpus for slot in sim.slots.values() if block in slot.blocks))
        return MEMORY if sizes[-1] < 4 else None

    sim.fate = fate
    assert play({"a": make_blocks("a", 8)}, sim).missing == {}
    assert (sim.quarantined, sizes) == ({}, [1, 2, 4])
    assert len(sim.recorded) == 16


def test_where_no_larger_slot_fits_the_trial_that_needs_it_is_an_error_alone() -> None:
    blocks = make_blocks("a", 2, num_episodes=4)
    poison = list(trials(blocks))[5]
    sim = Simulated([Resources(2, 0)], over(poison, MEMORY))
    outcome = play({"a": blocks}, sim)
    assert (outcome.missing, sim.quarantined.keys()) == ({}, {poison})
    assert sim.quarantined[poison].failure == "memory"
    assert len(sim.recorded) == 15


def test_a_worker_that_hangs_is_closed_and_its_block_goes_to_another() -> None:
    sim, told = Simulated([ONE, ONE]), Told()
    sim.takes_s = lambda block: math.inf if "a/2/0" in episodes(block) and block.attempt == 1 else 1.0
    outcome = play({"a": make_blocks("a", 6)}, sim, told, hang_s=60)
    assert (outcome.missing, sim.quarantined) == ({}, {})
    assert set(sim.recorded.values()) == {1}
    assert ("a", "nothing was heard of the worker for 60 s") in told.of("problem")


def test_a_worker_that_is_slow_but_within_the_limit_is_left_alone() -> None:
    sim = Simulated([ONE, ONE])
    sim.takes_s = lambda block: 59.0
    assert play({"a": make_blocks("a", 6)}, sim, hang_s=60).num_loads == 2


def test_a_trial_that_hangs_every_worker_is_an_error_alone() -> None:
    blocks = make_blocks("a", 2, num_episodes=4)
    poison = list(trials(blocks))[3]
    sim = Simulated([ONE])
    sim.takes_s = lambda block: math.inf if poison in trials([block]) else 1.0
    outcome = play({"a": blocks}, sim, hang_s=60)
    assert (outcome.missing, sim.quarantined.keys()) == ({}, {poison})
    assert sim.quarantined[poison].failure == "hung"


def test_a_load_that_hangs_is_given_up_in_bounded_tries() -> None:
    sim = Simulated([ONE], load_s=math.inf)
    outcome = play({"a": make_blocks("a", 6)}, sim, hang_s=60)
    assert "nothing was heard of the worker for 60 s" in outcome.reasons["a"]
    assert sim.log.count("open a") == 3


@pytest.mark.parametrize("num_losses", [5, 6])
def test_a_machine_that_is_taken_away_says_little_of_what_ran_on_it(num_losses: int) -> None:
    falls = iter([PREEMPTED] * num_losses)
    sim = Simulated([ONE], lambda _, block: next(falls, None) if block is not None else None)
    play({"a": make_blocks("a", 1, num_arms=1)}, sim, a=make_job("a"))
    assert bool(sim.quarantined) is (num_losses == 6)
