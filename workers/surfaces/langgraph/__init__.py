"""LangGraph time travel, checkpoints in memory: the real library, imported when a session opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from workers.errors import Unsupported
from workers.surfaces.base import Script

if TYPE_CHECKING:
    from workers.engine import Engine
    from workers.engine.base import Path
    from workers.surfaces.langgraph.session import GraphSession

PIP_LINE = "pip install 'langgraph>=1.2,<1.3' 'langgraph-checkpoint-sqlite>=3.1,<4'"


def open_session(engine: Engine, script: Script, *, on_disk: bool) -> GraphSession:
    """A graph that has planned and explored, and is interrupted before it decides.

    Raises:
        Unsupported: LangGraph or its SQLite checkpointer is not installed.
    """
    try:
        from workers.surfaces.langgraph.session import GraphSession
    except ModuleNotFoundError as lack:
        raise Unsupported(f"{lack.name} is not installed; {PIP_LINE}") from lack
    return GraphSession(engine, script, on_disk=on_disk)


class LangGraph:
    """The abort forks the thread before the branch's messages; the cache is behind the graph, by session key."""

    name: ClassVar[str] = "langgraph"
    version: ClassVar[int] = 1
    path: ClassVar[Path] = "explicit"

    def open(self, engine: Engine, script: Script) -> GraphSession:
        """A session whose checkpoints are kept in memory."""
        return open_session(engine, script, on_disk=False)


SURFACE = LangGraph()
