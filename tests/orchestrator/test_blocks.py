"""Into how many blocks a model's trials are cut, and that a block is made only when it is sent."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import config
from orchestrator.blocks import (
    LEAST_IN_BLOCK,
    MOST_IN_BLOCK,
    MOST_TRIALS,
    Queue,
    Range,
    begun_early,
    missing,
    num_blocks,
    queues,
)
from orchestrator.plan import State
from tests.orchestrator.unions import laid_out
from tests.planned import planned
from workers.block import Trial
from workers.episode import Episode

TRIALS, SLOTS = st.integers(1, 2_000_000), st.integers(1, 2000)


@given(TRIALS, SLOTS)
def test_no_block_has_more_trials_than_one_may_lose(num_trials: int, num_slots: int) -> None:
    assert num_trials / num_blocks(num_trials, num_slots) <= MOST_IN_BLOCK


@given(TRIALS, SLOTS)
def test_a_block_is_worth_a_workers_while_unless_there_are_few_trials(num_trials: int, num_slots: int) -> None:
    number = num_blocks(num_trials, num_slots)
    assert number <= 2 or num_trials / number >= LEAST_IN_BLOCK


@given(TRIALS, SLOTS)
def test_a_large_grid_gives_each_slot_two_blocks(num_trials: int, num_slots: int) -> None:
    if num_trials >= 2 * num_slots * LEAST_IN_BLOCK:
        assert num_blocks(num_trials, num_slots) >= 2 * num_slots


@given(st.integers(2, 128))
def test_a_small_grid_on_one_slot_is_two_blocks(num_trials: int) -> None:
    assert num_blocks(num_trials, 1) == 2


@given(TRIALS, SLOTS)
def test_more_slots_never_make_fewer_blocks(num_trials: int, num_slots: int) -> None:
    assert num_blocks(num_trials, num_slots) <= num_blocks(num_trials, num_slots + 1)


@pytest.fixture(scope="module")
def queue() -> Queue:
    """18 greedy and sampled episodes."""
    decode = "study.decode={temperature:[0.0,0.7],num_draws:20}"
    return queues(planned(laid_out(config.load(["model=scripted", decode])).cells))["scripted"]


@given(number=st.integers(1, 60))
def test_cut_anyhow_each_trial_is_in_one_block_and_no_work_is_torn(queue: Queue, number: int) -> None:
    blocks = queue.in_blocks(number)
    assert np.array_equal(np.concatenate([block.trials for block in blocks]), queue.trials)
    assert sorted(queue.trials.tolist()) == np.flatnonzero(queue.plan.is_in(State.RUN)).tolist()
    assert all(before.stop == after.start for before, after in pairwise(blocks))
    assert len(blocks) <= number
    largest = max(np.diff(queue.edges))
    assert all(abs(block.num_trials - queue.num_trials / len(blocks)) <= 2 * largest for block in blocks)


def test_one_episode_goes_ahead_and_nothing_else_moves(queue: Queue) -> None:
    blocks = queue.in_blocks(3)
    first, *rest = begun_early(blocks)
    assert (first.start, first.num_episodes) == (0, 1)
    assert [(block.start, block.stop) for block in rest] == [(1, blocks[0].stop)] + [
        (block.start, block.stop) for block in blocks[1:]
    ]
    assert begun_early([first]) == [first]
    assert begun_early([]) == []


def test_a_work_has_the_draws_of_an_arm_together(queue: Queue) -> None:
    """An arm's draws decide on one state, which is prefilled once only if they are neighbours."""
    for number in range(len(queue.edges) - 1):
        trials = queue.work(number).trials
        assert len(trials) <= MOST_TRIALS
        cells = [trial.cell_id for trial in trials]
        assert len([1 for one, other in pairwise(cells) if one != other]) == len(set(cells)) - 1


def asked(block: Range) -> list[tuple[str, Trial]]:
    return [(work.episode_id, trial) for work in block.made().works for trial in work.trials]


@given(size=st.integers(1, 9), turns=st.lists(st.booleans(), max_size=8))
def test_halves_share_a_block_in_equal_parts_down_to_the_trial(queue: Queue, size: int, turns: list[bool]) -> None:
    block = queue.by_episodes(size)[1]
    assert block.made().num_trials == block.num_trials
    for turn in turns:
        if block.num_trials == 1:
            return
        first, second = block.halves()
        assert asked(first) + asked(second) == asked(block)
        assert [*first.trials, *second.trials] == [*block.trials]
        assert abs(first.num_trials - second.num_trials) <= 1
        assert (first.made().num_trials, len(first.made().works)) == (first.num_trials, first.num_episodes)
        block = second if turn else first


def test_what_is_given_up_is_missing_trial_by_trial_with_its_reason(queue: Queue) -> None:
    first, second, third, *_ = queue.by_episodes(1)
    found = missing([(first, "lost"), (second, "interrupted"), (third, "lost")])
    said = {trial: found.reasons[reason] for trial, reason in zip(found.trials, found.reason, strict=True)}
    assert said == {
        **dict.fromkeys((*first.trials, *third.trials), "lost"),
        **dict.fromkeys(second.trials, "interrupted"),
    }
    assert len(missing([]).trials) == 0


def test_texts_are_written_when_a_block_is_sent_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    digest = Episode.digest.fget
    assert digest is not None
    monkeypatch.setattr(Episode, "digest", property(lambda self: written.append(self.text) or digest(self)))
    found = queues(planned(laid_out(config.load(["model=[random-llama,random-qwen2]"])).cells))
    assert len(written) == len(set(written)) == 18, "two models, whose episodes say the same"
    blocks = [block for queue in found.values() for block in queue.by_episodes(1)]
    assert len(written) == 18
    for number, block in enumerate(blocks, start=1):
        (work,) = block.made().works
        assert written[-1] == work.episode.text
        assert len(written) == 18 + number


def test_episodes_that_begin_alike_are_neighbours_in_the_queue() -> None:
    """A worker shares prefixes inside a block, so a block that splits them pays for them twice."""
    surfaces = "study.levels.surface=[tensor_probe,session_app]"
    cells = laid_out(config.load(["model=scripted", surfaces, "study.levels.guard=[false,true]"])).cells
    (queue,) = queues(planned(cells)).values()
    episodes = [queue.work(number).episode for number in range(len(queue.edges) - 1)]
    committed = [episode.committed for episode in episodes]
    branched = [(*episode.committed, *episode.branch) for episode in episodes]
    for said, num_times in ((committed, 36), (branched, 2)):
        runs = [len(list(run)) for _, run in groupby(said)]
        assert runs == [num_times] * len(set(said))


def test_where_nothing_is_said_twice_the_queue_has_the_grids_order() -> None:
    (queue,) = queues(planned(laid_out(config.load(["model=scripted"])).cells)).values()
    assert queue.trials.tolist() == list(range(108))
