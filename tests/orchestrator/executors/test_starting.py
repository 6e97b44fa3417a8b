"""An executor that starts beside the plan is there when it is asked for, and gone at the end."""

from __future__ import annotations

import threading

import pytest

from orchestrator.executors.starting import Starting
from tests.orchestrator.simulated import Simulated
from workers.errors import ConfigError, StoreError


def test_it_starts_while_something_else_is_done() -> None:
    is_written = threading.Event()

    def make() -> Simulated:
        assert is_written.wait(10)
        return Simulated([])

    with Starting(make) as starting:
        is_written.set()
        executor = starting.executor
        assert isinstance(executor, Simulated)
        assert not executor.is_shut
    assert executor.is_shut


def test_it_is_shut_down_when_what_is_done_meanwhile_fails() -> None:
    made: list[Simulated] = []

    def make() -> Simulated:
        made.append(Simulated([]))
        return made[-1]

    with pytest.raises(StoreError, match="full"), Starting(make):
        raise StoreError("full")
    assert [executor.is_shut for executor in made] == [True]


def test_the_thread_that_started_it_outlives_it() -> None:
    threads: list[threading.Thread] = []

    class Watched(Simulated):
        def shutdown(self) -> None:
            assert threads[0].is_alive()
            super().shutdown()

    def make() -> Simulated:
        threads.append(threading.current_thread())
        return Watched([])

    with Starting(make) as starting:
        executor = starting.executor
        assert isinstance(executor, Simulated)
    assert executor.is_shut
    assert not threads[0].is_alive()


def test_one_that_cannot_start_says_so_where_it_is_asked_for() -> None:
    def make() -> Simulated:
        raise ConfigError("no cluster answers")

    with pytest.raises(ConfigError, match="no cluster answers"), Starting(make) as starting:
        assert starting.executor


def test_the_first_failure_is_the_one_that_is_told() -> None:
    def make() -> Simulated:
        raise ConfigError("no cluster answers")

    with pytest.raises(StoreError, match="full"), Starting(make):
        raise StoreError("full")
