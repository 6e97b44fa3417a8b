"""A store as one self-contained HTML page, every number of which `python -m analysis query` gives again."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import AnalysisError
from analysis.report.gather import read_page
from analysis.report.page import render

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse

__all__ = ["write_report"]


def write_report(warehouse: Warehouse, path: Path) -> Path:
    """Write the page beside and rename it into place; the same store gives the same bytes.

    Raises:
        AnalysisError: the store cannot be read, or the file cannot be written.
    """
    html = render(read_page(warehouse))
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            beside.write_text(html, encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as failure:
        raise AnalysisError(f"cannot write {path}: {failure.strerror or failure}") from failure
    return path
