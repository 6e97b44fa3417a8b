"""A request to end: once at the next commit, twice at once."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Counts requests to end. As a context manager, Ctrl-C and SIGTERM are such requests.

    Outside the main thread no handler can be installed, and only `ask` counts.

    Attributes:
        requests: 0 go on, 1 end at the next commit, 2 end at once.
    """

    def __init__(self) -> None:
        self.requests = 0
        self._before: dict[signal.Signals, Any] = {}

    def ask(self) -> None:
        """Ask to end, or to end at once when it was asked before."""
        self.requests += 1

    def raise_if_at_once(self) -> None:
        """End at once, when that was asked.

        Raises:
            KeyboardInterrupt: it was asked twice.
        """
        if self.requests >= 2:
            raise KeyboardInterrupt

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # None stands for a handler that was not installed from Python; it cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    def _on_signal(self, *_: object) -> None:
        self.ask()
        # Raised from here because a block that runs in this very thread asks nobody.
        self.raise_if_at_once()
