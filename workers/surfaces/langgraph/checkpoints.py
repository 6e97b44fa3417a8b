"""Where the graph's checkpoints are kept, and that nothing of a run leaves the machine."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import weakref
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langsmith.run_helpers import tracing_context


def untraced() -> AbstractContextManager[None]:
    """LangSmith sends every message to its servers where the environment says so; not from here."""
    return tracing_context(enabled=False)


def in_memory() -> BaseCheckpointSaver[Any]:
    """Checkpoints that end with the process."""
    return InMemorySaver()


def on_disk(owner: object) -> tuple[BaseCheckpointSaver[Any], Path]:
    """Checkpoints in a temporary file that is removed when `owner` is; and the file."""
    folder = Path(tempfile.mkdtemp(prefix="residue-langgraph-"))
    # Parallel branches of a graph write from threads of their own; the saver has a lock.
    connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)
    weakref.finalize(owner, _remove, connection, folder)
    return SqliteSaver(connection), folder / "checkpoints.sqlite"


def _remove(connection: sqlite3.Connection, folder: Path) -> None:
    connection.close()
    shutil.rmtree(folder, ignore_errors=True)
