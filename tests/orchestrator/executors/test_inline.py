"""The executor in this process, by the whole path with the null engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.executors.base import Failed, FailureClass, Ready
from orchestrator.executors.inline import InlineExecutor
from orchestrator.schedule import Stop, run
from tests.orchestrator.executors.fakes import Fake
from tests.orchestrator.simulated import ended, make_blocks, make_job, unmade
from workers.errors import StoreError


def inline(worker: Any = Fake) -> InlineExecutor:
    return InlineExecutor(worker)


def test_blocks_go_through_one_at_a_time(tmp_path: Path) -> None:
    jobs = {model: make_job(model, store=str(tmp_path)) for model in ("a", "b")}
    blocks = unmade({model: make_blocks(model, 3) for model in jobs})
    outcome = ended(run(blocks, jobs, inline(), [], Stop()))
    assert outcome.missing == {}
    assert outcome.num_loads == 2
    assert len(list(tmp_path.glob("done-*"))) == 6


def test_there_is_room_for_one_slot() -> None:
    executor, job = inline(), make_job("a", gpus=8)
    assert (executor.room(job), executor.capacity(job)) == (1, 1)
    slot = executor.open(job)
    assert executor.room(job) == 0
    executor.close(slot)
    assert executor.room(job) == 1


def test_a_model_that_cannot_be_loaded_is_a_typed_failure(tmp_path: Path) -> None:
    (tmp_path / "no-model").touch()
    executor = inline()
    slot = executor.open(make_job("a", store=str(tmp_path)))
    assert executor.wait(0) == [Failed(slot, FailureClass.MODEL, "planted: no model", ())]
    assert executor.room(make_job("a")) == 1


def test_a_store_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "no-store").touch()
    with pytest.raises(StoreError, match="planted: no store"):
        run(unmade({"a": make_blocks("a", 2)}), {"a": make_job("a", store=str(tmp_path))}, inline(), [], Stop())


def test_a_bug_is_raised_where_a_debugger_finds_it(tmp_path: Path) -> None:
    (tmp_path / "bug").touch()
    executor = inline()
    slot = executor.open(make_job("a", store=str(tmp_path)))
    assert isinstance(executor.wait(0)[0], Ready)
    executor.submit(slot, make_blocks("a", 1)[0])
    with pytest.raises(KeyError, match="planted"):
        executor.wait(0)


def test_nothing_to_do_is_no_event() -> None:
    assert inline().wait(0) == []
