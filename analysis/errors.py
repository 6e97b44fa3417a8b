"""The errors that analysis raises on purpose, and the words that help after a misspelling."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class AnalysisError(Exception):
    """What, where and the mend, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class DamagedPart(AnalysisError):
    """A part of the store that DuckDB cannot read.

    Attributes:
        path: the part.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"damaged part {path}: the next `python -m orchestrator` sets it aside and runs its trials again"
        )
        self.path = path


def nearest(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?`, or the list of what exists."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else f"; there is {', '.join(names)}"
