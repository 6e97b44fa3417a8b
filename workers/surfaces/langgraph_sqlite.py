"""LangGraph time travel, checkpoints in SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from workers.surfaces.base import Script
from workers.surfaces.langgraph import open_session

if TYPE_CHECKING:
    from workers.engine import Engine
    from workers.engine.base import Path
    from workers.surfaces.langgraph.session import GraphSession


class LangGraphSqlite:
    """As `langgraph`, with every checkpoint on disk: an abort erases nothing there."""

    name: ClassVar[str] = "langgraph_sqlite"
    version: ClassVar[int] = 1
    path: ClassVar[Path] = "explicit"

    def open(self, engine: Engine, script: Script) -> GraphSession:
        """A session whose checkpoints are in a temporary file, removed with the session."""
        return open_session(engine, script, on_disk=True)


SURFACE = LangGraphSqlite()
