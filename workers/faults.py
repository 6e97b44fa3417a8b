"""Named points at which a process can be made to die, so that a fault happens at a decision and never after a sleep.

`RESIDUE_FAULT=<point>@<file>` kills, with SIGKILL, the first process that reaches the point. It makes the file first:
whoever reaches the point later finds it there and goes on. `mode=doctor` and the tests set it; nothing else does.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "RESIDUE_FAULT"


def point(name: str, torn: Path | None = None) -> None:
    """Die here, once, where the environment says so.

    Args:
        torn: a file of which only the first half is left then.
    """
    armed, _, claim = os.environ.get(VARIABLE, "").partition("@")
    if armed != name or not _is_first(claim):
        return
    if torn is not None:
        os.truncate(torn, torn.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def of_commit(folder: Path, num_rows: int) -> str:
    """What a part's points are called after: its table; a part without rows makes a folder readable, and is `empty`."""
    if not num_rows:
        return "empty"
    return "trials" if folder.parent.name == "trials" else folder.name


def _is_first(claim: str) -> bool:
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        return False
    return True
