"""What is said on the terminal: text from outside made harmless, and streams that may be closed, full or odd."""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.errors import ResidueError

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def plain(text: str) -> str:
    """`text` with control, format and unseen characters (ANSI escapes, bidi marks, line breaks) shown as escapes."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in _HIDDEN else char for char in text
    )


def open_streams() -> None:
    """Make what is printed harmless: no encoding refuses a text, and a closed standard error swallows it.

    Raises:
        ResidueError: standard output is closed.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for as long as the process
    if sys.stdout is None:
        raise ResidueError("standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def speaking() -> Iterator[None]:
    """What is printed inside is written out; a reader that left (`| head`) has seen enough.

    Raises:
        ResidueError: standard output cannot be written.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as failure:
        # What Python still holds back must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(failure, BrokenPipeError):
            raise ResidueError(f"cannot write to standard output: {failure.strerror}") from failure
