"""A request to end, with and without signals."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from orchestrator.stop import Stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_once_and_the_second_ends_at_once(number: signal.Signals) -> None:
    with Stop() as stop:
        os.kill(os.getpid(), number)
        assert stop.requests == 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_handlers_are_put_back_whatever_happens() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ValueError, match="planted"), Stop():
        raise ValueError("planted")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_it_works_without_signals() -> None:
    requests: list[int] = []

    def use() -> None:
        with Stop() as stop:
            stop.ask()
            requests.append(stop.requests)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert requests == [1]
