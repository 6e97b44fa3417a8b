"""A trial that is given up is a row like any other: what was asked, why, of what class, and how often it was tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from workers import quarantine
from workers.block import Block, Job
from workers.identity import Identity
from workers.quarantine import WORDS, Grounds
from workers.worker import Worker

Rows = Callable[[Job], list[dict[str, Any]]]


@pytest.fixture
def block(make_blocks: Callable[..., list[Block]]) -> Block:
    (work, *_) = make_blocks("limit=6")[0].works
    return Block("scripted", (replace(work, trials=work.trials[2:3]),))


@pytest.mark.parametrize("failure", WORDS)
def test_its_row_says_class_attempts_words_and_traceback(job: Job, block: Block, rows: Rows, failure: str) -> None:
    receipt = quarantine.commit(job, block, Grounds(failure, 9, "the last words", "Traceback: planted"))
    (row,) = rows(job)
    (trial,) = block.works[0].trials
    assert (row["cell_id"], row["draw"], row["arm"]) == (trial.cell_id, trial.draw, trial.arm)
    assert Identity.from_text(row["identity"]).cell_id == row["cell_id"]
    assert (row["status"], row["failure"], row["attempts"]) == ("error", failure, 9)
    assert row["error"].endswith("the last words")
    assert "9 times" in row["error"]
    assert row["traceback"] == "Traceback: planted"
    assert (row["reply"], row["effect_status"], row["layer1"]) == (None, None, None)
    assert (receipt.statuses, receipt.num_trials, receipt.is_first) == ({"error": 1}, 1, True)


def test_a_worker_that_was_given_up_and_commits_first_has_the_last_word(job: Job, block: Block, rows: Rows) -> None:
    Worker(job).run(block)
    before = rows(job)
    receipt = quarantine.commit(job, block, Grounds("hung", 2, "nothing was heard"))
    assert not receipt.is_first
    assert rows(job) == before


def test_a_trial_that_was_tried_before_says_so_when_it_is_done(job: Job, block: Block, rows: Rows) -> None:
    Worker(job).run(replace(block, attempt=4))
    assert [(row["status"], row["attempts"]) for row in rows(job)] == [("done", 4)]
