"""One row of a Parquet file changed by hand, as somebody would who hopes that nobody looks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]


def edited(path: Path, which: int | Mapping[str, Any], **changes: Any) -> Row:
    """Change the row at a place, or the first that says what `which` does.

    Returns:
        The row as it was.
    """
    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    at = which if isinstance(which, int) else next(at for at, row in enumerate(rows) if which.items() <= row.items())
    honest, rows[at] = rows[at], rows[at] | changes
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return honest
