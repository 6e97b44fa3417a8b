"""Where blocks run: in this process, or on Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.config_schema import ExecutorConfig
    from orchestrator.executors.base import Executor


def make_executor(config: ExecutorConfig) -> Executor:
    """The executor that the configuration names; Ray is imported only where it is asked for."""
    if config.kind == "inline":
        from orchestrator.executors.inline import InlineExecutor

        return InlineExecutor()
    from orchestrator.executors.ray import RayExecutor

    return RayExecutor(config.address, config.slots)
