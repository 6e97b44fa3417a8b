"""The driver's end of the tracker: a bounded queue, the thread that empties it, the process that owns wandb.

A process and not only a thread: one that hangs can be killed. wandb leaves exit hooks, a service and seconds
of imports in the process that loads it, and none of them may reach the run's.
"""

from __future__ import annotations

import contextlib
import json
import numbers
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from typing import Any

Message = dict[str, Any]
CHILD = "orchestrator.tracking.wandb"


class Feed:
    """Messages to the child. Only `close` waits, and not for longer than it is told.

    Attributes:
        reply: what the child has said: folder, url, mode, failure, and lost (kind of message → reason).
        num_dropped: messages that found the queue full.
    """

    def __init__(self, hello: Message, limit: int = 1000) -> None:
        self.reply: Message = {}
        self.num_dropped = 0
        self._queue: queue.Queue[Message | None] = queue.Queue(limit)
        self._child: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()
        self._hello = hello
        threading.Thread(target=self._work, name="residue-tracker", daemon=True).start()

    @property
    def failure(self) -> str | None:
        """Why nothing more reaches wandb, in one line."""
        failure = self.reply.get("failure")
        return " ".join(str(failure).split())[:300] if failure else None

    def offer(self, message: Message) -> None:
        """Hand over a message, or drop it."""
        if self._is_over.is_set():
            return
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            self.num_dropped += 1

    def close(self, last: list[Message], timeout_s: float) -> None:
        """Hand over the last messages and wait until they are written; kill a child that takes longer."""
        deadline = time.monotonic() + timeout_s
        for message in [*last, None]:
            self._insist(message, deadline)
        if not self._is_over.wait(max(0.0, deadline - time.monotonic())):
            self.reply.setdefault("failure", f"not finished within {timeout_s:g} s")
            self._kill()
            self._is_over.wait(1)

    def _insist(self, message: Message | None, deadline: float) -> None:
        while not self._is_over.is_set() and time.monotonic() < deadline:
            with contextlib.suppress(queue.Full):
                self._queue.put(message, timeout=0.05)
                return

    def _kill(self) -> None:
        if self._child is not None:
            _kill(self._child)

    def _work(self) -> None:
        try:
            self._child = _spawn()
            with contextlib.suppress(BrokenPipeError):  # the child is gone; it may have said why
                self._pump(self._child)
            self._hear_out(self._child)
        except Exception as failure:
            self.reply.setdefault("failure", f"{type(failure).__name__}: {failure}")
        self._is_over.set()
        if self._child is not None:
            _bury(self._child)

    def _pump(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        message: Message | None = self._hello
        while message is not None:
            child.stdin.write(_line(message))
            child.stdin.flush()
            if message is self._hello and not self._hear(child):
                return
            message = self._queue.get()
        child.stdin.close()

    def _hear(self, child: subprocess.Popen[bytes]) -> bool:
        """One answer; false where the child has failed or is gone."""
        assert child.stdout is not None
        line = child.stdout.readline()
        if line:
            self.reply |= json.loads(line)
        return bool(line) and "failure" not in self.reply

    def _hear_out(self, child: subprocess.Popen[bytes]) -> None:
        while not self.reply.get("is_finished") and self._hear(child):
            pass
        if not self.reply.get("is_finished"):
            self.reply.setdefault("failure", "the wandb process ended early")


def _spawn() -> subprocess.Popen[bytes]:
    # Its own session: Ctrl-C is for the run. Our imports, not those of the folder one happens to be in.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def _bury(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:  # all is written; some exit hook of wandb's hangs
        _kill(child)
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _line(message: Message) -> bytes:
    # `replace`: a lone surrogate out of a model's reply is no text to anyone.
    return json.dumps(message, ensure_ascii=False, default=_plain).encode("utf-8", "replace") + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real | Decimal) else str(value)
