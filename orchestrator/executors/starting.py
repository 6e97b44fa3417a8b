"""An executor that starts while the driver writes its plan: Ray takes seconds, most of them waiting."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from orchestrator.executors.base import Executor


class Starting:
    """A context manager; whatever happens inside it, the executor is shut down at its end.

    Args:
        make: starts the executor; called at once, in a thread of its own.
    """

    def __init__(self, make: Callable[[], Executor]) -> None:
        self._make = make

    @property
    def executor(self) -> Executor:
        """The executor, once it has started.

        Raises:
            ConfigError: it cannot be started.
        """
        return self._future.result()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(self._make)
        return self

    def __exit__(self, *_: object) -> None:
        # One that never started has been told of where it was asked for; there is nothing to shut down.
        with suppress(Exception):
            self._future.result().shutdown()
        # Not before: the kernel kills the processes that Ray started when the thread that started them ends.
        self._pool.shutdown()
