"""What the schedule decides, on a cluster made of numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.allocation import PATIENCE_S
from orchestrator.executors.base import FailureClass
from orchestrator.executors.fit import Resources
from orchestrator.schedule import Stop, Terms, run
from tests.orchestrator.simulated import (
    Ended,
    Simulated,
    ended,
    episodes,
    make_blocks,
    make_job,
    trials,
    unmade,
)
from workers.block import Block, Job
from workers.errors import StoreError

LOST, BUG, MODEL, STORE, UNPLACED = (FailureClass[n] for n in ("LOST", "BUG", "MODEL", "STORE", "UNPLACED"))
MEMORY, PREEMPTED = FailureClass.MEMORY, FailureClass.PREEMPTED
ONE = Resources(1, 0)
Blocks = Mapping[str, Sequence[Block]]


class Told:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.log.append((name, *arguments))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.log if entry[0] == name]


def play(
    blocks: Blocks, sim: Simulated, *listeners: Any, stop: Stop | None = None, hang_s: float | None = None, **jobs: Job
) -> Ended:
    """Run on the simulation; a model without a job of its own needs one CPU."""
    known = {model: jobs.get(model, make_job(model)) for model in blocks}
    terms = Terms(hang_s=hang_s, give_up=sim.give_up, clock=lambda: sim.now)
    outcome = run(unmade(blocks), known, sim, listeners, stop or Stop(), terms)
    assert sim.slots == {}, "a slot was left open"
    return ended(outcome)


def dies_over(*poison: str, failure: FailureClass = LOST, times: float = float("inf")) -> Any:
    """A fate: the worker dies when it meets one of these episodes, so many times."""
    left = itertools.count()

    def fate(model: str, block: Block | None) -> FailureClass | None:
        if not set(poison) & set(episodes(block)):
            return None
        return failure if next(left) < times else None

    return fate


def test_every_block_is_committed_once_and_nothing_is_missing() -> None:
    sim = Simulated([ONE, ONE])
    outcome = play({"a": make_blocks("a", 7), "b": make_blocks("b", 3)}, sim)
    assert (outcome.missing, outcome.was_interrupted) == ({}, False)
    assert len(sim.committed) == 10
    assert set(sim.committed.values()) == {1}


def test_a_model_that_was_found_wrong_runs_no_further_block_and_the_others_go_on() -> None:
    sim = Simulated([ONE, ONE])
    sim.stop["a"] = "batch_differs: stale, computed again alone, differs"
    outcome = play({"a": make_blocks("a", 9), "b": make_blocks("b", 4)}, sim)
    ran = [name for name in sim.committed if name.startswith("a/")]
    # What the slots were at, and nothing that waited behind it.
    assert 1 <= len(ran) <= sim.most_slots
    assert sum(name.startswith("b/") for name in sim.committed) == 4
    assert set(outcome.missing.values()) == {sim.stop["a"]}
    assert len(outcome.missing) == 2 * (9 - len(ran))
    assert outcome.reasons == {"a": sim.stop["a"]}


def test_nothing_to_do_opens_nothing() -> None:
    sim = Simulated([ONE])
    assert play({"a": []}, sim) == Ended({}, {}, False, 0)
    assert sim.log == []


def test_on_one_slot_the_longest_model_runs_first_and_each_is_loaded_once() -> None:
    """ray#28214: trials are placed where their model is."""
    sim = Simulated([ONE])
    outcome = play({m: make_blocks(m, n) for m, n in (("a", 2), ("b", 5), ("c", 3))}, sim)
    assert [line for line in sim.log if not line.startswith("run")] == [
        "open b", "close b", "open c", "close c", "open a", "close a",
    ]  # fmt: skip
    assert outcome.num_loads == 3


def test_models_share_the_slots_by_the_work_left_so_that_each_slot_loads_once() -> None:
    sim = Simulated([ONE] * 4)
    outcome = play({"a": make_blocks("a", 60), "b": make_blocks("b", 20)}, sim)
    assert sim.log[:4] == ["open a", "open a", "open a", "open b"]
    assert outcome.num_loads == 4


def test_a_freed_slot_helps_the_other_model_only_where_a_load_pays() -> None:
    helped, spared = Simulated([ONE] * 2, load_s=2), Simulated([ONE] * 2, load_s=30)
    for sim in (helped, spared):
        play({"a": make_blocks("a", 30), "b": make_blocks("b", 18)}, sim)
    assert helped.log.count("open a") == 2
    assert spared.log.count("open a") == 1
    assert helped.now < spared.now


def test_blocks_of_a_model_run_in_the_order_given() -> None:
    sim = Simulated([ONE])
    play({"a": make_blocks("a", 5)}, sim)
    assert [line for line in sim.log if line.startswith("run")] == [f"run a/{i}/0" for i in range(5)]


def test_a_block_waits_behind_the_running_one_and_none_behind_that() -> None:
    depths = []
    sim = Simulated([ONE])
    sim.before_wait = lambda s: depths.append(max((len(slot.blocks) for slot in s.slots.values()), default=0))
    play({"a": make_blocks("a", 9)}, sim)
    assert max(depths) == 2


def test_near_the_end_no_block_waits_while_a_slot_is_idle() -> None:
    sim = Simulated([ONE] * 3)
    play({"a": make_blocks("a", 4, num_episodes=10)}, sim)
    assert sim.now == 2 + 20, "the load and two rounds"


def test_no_more_slots_than_blocks() -> None:
    sim = Simulated([ONE] * 50)
    play({"a": make_blocks("a", 3)}, sim)
    assert sim.most_slots == 3


def test_a_slot_never_spans_two_machines() -> None:
    sim = Simulated([Resources(8, 1), Resources(8, 1), Resources(8, 2)])
    play({"big": make_blocks("big", 4)}, sim, big=make_job("big", gpus=2))
    assert sim.most_slots == 1


def test_a_model_that_fits_nowhere_is_missing_with_what_it_needs() -> None:
    """ray#42683: a pending assignment hung without a word."""
    sim, told = Simulated([Resources(4, 1)]), Told()
    outcome = play({"big": make_blocks("big", 2), "a": make_blocks("a", 2)}, sim, told, big=make_job("big", gpus=2))
    reason = "needs 1 CPU and 2 GPU on one machine; this is a simulation of 1 machines"
    assert outcome.reasons == {"big": reason}
    assert set(outcome.missing.values()) == {reason}
    assert len(outcome.missing) == 4
    assert told.of("finished") == [({"big": reason},)]
    assert set(sim.committed) == {"a/0/0", "a/1/0"}


def test_a_model_that_cannot_be_loaded_is_missing_and_the_others_run() -> None:
    sim = Simulated([ONE] * 2, lambda model, block: MODEL if model == "a" and block is None else None)
    told = Told()
    outcome = play({"a": make_blocks("a", 5), "b": make_blocks("b", 2)}, sim, told)
    assert outcome.reasons == {"a": "planted model"}
    assert len(outcome.missing) == 10
    assert set(sim.committed) == {"b/0/0", "b/1/0"}
    assert ("a", "planted model") in told.of("problem")


def test_a_model_that_one_machine_cannot_load_goes_on_where_it_is_loaded() -> None:
    loads = itertools.count()
    sim = Simulated([ONE] * 3, lambda _, block: MODEL if block is None and next(loads) == 1 else None)
    outcome = play({"a": make_blocks("a", 20)}, sim)
    assert outcome.missing == {}
    assert sim.log.count("open a") == 3, "no other slot is tried after the failure"


def test_a_store_that_cannot_be_written_stops_everything() -> None:
    sim, told = Simulated([ONE] * 2, dies_over("a/1/0", failure=STORE)), Told()
    with pytest.raises(StoreError, match="planted store"):
        play({"a": make_blocks("a", 9), "b": make_blocks("b", 9)}, sim, told)
    assert sim.is_shut
    assert told.of("finished") == [({"a": "planted store", "b": "planted store"},)]


def test_a_lost_worker_is_replaced_and_its_blocks_are_run_before_the_others() -> None:
    """inspect#2626: a retry does not wait for the rest of the set."""
    sim = Simulated([ONE], dies_over("a/1/0", times=1))
    outcome = play({"a": make_blocks("a", 5)}, sim)
    assert outcome.missing == {}
    runs = [line.removeprefix("run ") for line in sim.log if line.startswith("run")]
    assert runs == ["a/0/0", "a/1/0", "a/1/0", "a/2/0", "a/3/0", "a/4/0"]
    assert outcome.num_loads == 2


def test_a_block_that_waited_behind_a_lost_one_is_not_blamed() -> None:
    sim = Simulated([ONE], dies_over("a/0/0", times=2))
    outcome = play({"a": make_blocks("a", 2)}, sim)
    assert outcome.missing == {}


def test_a_model_whose_workers_die_while_loading_is_given_up() -> None:
    sim = Simulated([ONE], lambda model, block: LOST if model == "a" and block is None else None)
    outcome = play({"a": make_blocks("a", 100), "b": make_blocks("b", 1)}, sim)
    assert outcome.reasons == {"a": "worker lost while loading: planted lost"}
    assert sim.log.count("open a") == 3
    assert set(sim.committed) == {"b/0/0"}


def test_a_model_whose_workers_all_die_at_work_is_given_up_in_bounded_tries() -> None:
    sim = Simulated([ONE] * 2, lambda model, block: LOST if model == "a" and block is not None else None)
    outcome = play({"a": make_blocks("a", 10_000), "b": make_blocks("b", 5)}, sim)
    assert "workers failed in a row" in outcome.reasons["a"]
    assert sim.log.count("open a") < 30
    assert len(sim.committed) == 5


def test_a_slot_without_a_machine_costs_its_model_nothing() -> None:
    tries = itertools.count()
    sim = Simulated([ONE], lambda _, block: UNPLACED if block is None and next(tries) < 50 else None)
    assert play({"a": make_blocks("a", 2)}, sim).missing == {}


def test_a_cluster_that_grows_is_used() -> None:
    sim = Simulated([ONE])

    def grow(s: Simulated) -> None:
        if len(s.committed) == 3 and len(s.machines) == 1:
            s.add_machine(Resources(2, 0))

    sim.before_wait = grow
    play({"a": make_blocks("a", 60)}, sim)
    assert sim.most_slots == 3


def test_a_cluster_that_shrinks_ends_the_run_all_the_same() -> None:
    sim = Simulated([ONE, ONE])
    sim.before_wait = lambda s: s.lose_machine(1) if len(s.committed) == 3 and s.machines[1] == ONE else None
    assert play({"a": make_blocks("a", 20)}, sim).missing == {}
    assert set(sim.committed.values()) == {1}


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_cluster_without_machines_is_waited_for_but_not_for_ever(comes_back: bool) -> None:
    sim = Simulated([ONE])

    def scenario(s: Simulated) -> None:
        if len(s.committed) == 3 and s.machines == [ONE]:
            s.lose_machine(0)
        elif comes_back and s.now > PATIENCE_S / 2 and len(s.machines) == 1:
            s.add_machine(ONE)

    sim.before_wait = scenario
    outcome = play({"a": make_blocks("a", 9)}, sim)
    assert bool(outcome.missing) is not comes_back
    assert sim.now > PATIENCE_S / 2


def test_interrupted_once_each_slot_commits_what_it_is_at_and_no_more() -> None:
    sim, stop = Simulated([ONE] * 2), Stop()
    sim.before_wait = lambda s: stop.ask() if s.num_asked["wait"] == 3 else None
    blocks = make_blocks("a", 20, num_episodes=5)
    outcome = play({"a": blocks, "b": make_blocks("b", 1)}, sim, stop=stop)
    assert outcome.was_interrupted
    assert set(outcome.missing.values()) == {"interrupted"}
    done = {key for key in trials(blocks) if key not in outcome.missing}
    assert len(done) == 2 * sim.committed.total()
    # a/0 was committed as the request came; a/1 and a/2 were being worked on; a/3 waited behind a/2.
    assert {episode[:3] for episode in sim.committed} == {"a/0", "a/1", "a/2"}
    assert not [line for line in sim.log[sim.log.index("close a") :] if line.startswith("open")]


def test_interrupted_while_loading_nothing_is_waited_for() -> None:
    sim, stop = Simulated([ONE] * 2, load_s=1000), Stop()
    stop.ask()
    outcome = play({"a": make_blocks("a", 5)}, sim, stop=stop)
    assert (sim.now, len(outcome.missing), sim.log) == (0, 10, [])


def test_interrupted_twice_all_slots_go_at_once() -> None:
    sim, stop, told = Simulated([ONE]), Stop(), Told()

    def ask(s: Simulated) -> None:
        if s.committed:
            stop.ask()

    sim.before_wait = ask
    with pytest.raises(KeyboardInterrupt):
        play({"a": make_blocks("a", 9)}, sim, told, stop=stop)
    assert sim.is_shut
    assert told.of("finished") == [({"a": "stopped at once"},)]


def test_a_listener_that_raises_hurts_neither_the_run_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Callable[..., None]:
            raise OSError("gone")

    told = Told()
    outcome = play({"a": make_blocks("a", 3)}, Simulated([ONE]), Broken(), told)
    assert outcome.missing == {}
    assert len(told.of("block_done")) == 3
    assert len(caplog.records) == 1


def test_listeners_hear_of_loads_blocks_and_problems() -> None:
    told = Told()
    play({"a": make_blocks("a", 2)}, Simulated([ONE], dies_over("a/0/0", times=1)), told)
    assert [entry[0] for entry in told.log] == [
        "slot_ready", "problem", "slot_ready", "block_done", "block_done", "finished",
    ]  # fmt: skip


def test_a_thousand_slots_are_kept_busy_with_few_decisions() -> None:
    models = {f"m{i}": make_blocks(f"m{i}", 500 * (i + 1), num_episodes=4, num_arms=1) for i in range(8)}
    num_blocks = sum(map(len, models.values()))
    sim = Simulated([Resources(100, 0)] * 10, load_s=4.0)
    assert play(models, sim).missing == {}
    assert sim.most_slots == 1000
    assert sim.committed.total() == 4 * num_blocks
    lower_bound = (4 * num_blocks + 4 * 1000) / 1000
    assert sim.now < 1.25 * lower_bound
    assert sim.num_asked["wait"] + sim.num_asked["room"] < 2 * num_blocks


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[dict[str, list[Block]], list[Resources], int, float, int | None]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=4))
    blocks = {f"m{i}": make_blocks(f"m{i}", *size) for i, size in enumerate(sizes)}
    machines = draw(st.lists(st.builds(Resources, st.integers(0, 3), st.just(0)), min_size=1, max_size=4))
    return blocks, machines, draw(st.integers(0, 10**6)), draw(st.floats(0, 0.9)), draw(st.none() | st.integers(0, 40))


@given(scenarios())
def test_whatever_fails_each_trial_is_recorded_once_or_missing_with_a_reason(scenario: Any) -> None:
    blocks, machines, seed, rate, interrupt_at = scenario
    dice = random.Random(seed)

    def fate(model: str, block: Block | None) -> FailureClass | None:
        kinds = [LOST, LOST, BUG, UNPLACED, MODEL] if block is None else [LOST, LOST, BUG, MEMORY, PREEMPTED]
        return dice.choice(kinds) if dice.random() < rate else None

    sim, stop = Simulated(machines, fate), Stop()
    sim.before_wait = lambda s: stop.ask() if s.num_asked["wait"] == interrupt_at else None
    outcome = play(blocks, sim, stop=stop)
    assert all(outcome.missing.values()), "each with a reason"
    for trial in trials([block for queue in blocks.values() for block in queue]):
        assert sim.recorded[trial] + (trial in sim.quarantined) + (trial in outcome.missing) == 1
    assert interrupt_at is None or not outcome.was_interrupted or stop.requests == 1
