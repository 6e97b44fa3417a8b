"""Ray's errors → ours, each in one line."""

from __future__ import annotations

import re

from ray import exceptions

from orchestrator.executors.base import FailureClass
from workers.errors import ModelError, OutOfMemory, StoreError

MAX_CHARACTERS = 300


def translate(error: exceptions.RayError) -> tuple[FailureClass, str, str]:
    """What an error of an actor's call means, its message, and the remote traceback where there is one."""
    if isinstance(error, exceptions.RayTaskError):
        if isinstance(error.cause, ModelError):
            return FailureClass.MODEL, str(error.cause), ""
        if isinstance(error.cause, StoreError):
            return FailureClass.STORE, str(error.cause), ""
        if isinstance(error.cause, OutOfMemory):
            return FailureClass.MEMORY, last_line(error), str(error)
        return FailureClass.BUG, last_line(error), str(error)
    if isinstance(error, exceptions.RuntimeEnvSetupError) or getattr(error, "_actor_init_failed", False):
        return FailureClass.BUG, f"a worker cannot start: {last_line(error)}", ""
    # A process that dies is known to have died; of one whose machine is gone, Ray at first only says that it is silent.
    is_silent = isinstance(error, exceptions.ActorUnavailableError) or getattr(error, "preempted", False)
    is_gone = is_silent or "its node has died" in str(error)
    return FailureClass.PREEMPTED if is_gone else FailureClass.LOST, cause_of_death(str(error)), ""


def cause_of_death(essay: str) -> str:
    """The one sentence that differs from case to case, out of what Ray writes about a dead worker."""
    text = " ".join(essay.split())
    detail = re.search(r"exit detail: (.+?)(?: Some common causes|$)", text) or re.search(r"because (.+?\.)", text)
    who = re.search(r"pid: (\d+) .*?ip: (\S+)", text)
    where = f" (pid {who[1]} on {who[2]})" if who else ""
    return f"the worker died{where}: {detail[1] if detail else text}"[:MAX_CHARACTERS]


def last_line(error: Exception) -> str:
    """Where a remote traceback says what went wrong."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip()[:MAX_CHARACTERS]
