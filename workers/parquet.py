"""The door to Parquet: a file's existence is the commit (DESIGN §4.2)."""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers import faults
from workers.errors import StoreError

NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def commit(folder: Path, name: str, table: pa.Table) -> bool:
    """Write `table` as `part-<name>.parquet`; the first writer of a name wins.

    Returns:
        Whether this call made the part; false where it was there already (the new file is discarded).

    Raises:
        StoreError: the folder cannot be written.
    """
    final, what = folder / f"part-{name}.parquet", faults.of_commit(folder, table.num_rows)
    faults.point(f"{what}:asked")
    with _translated(final):
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f"part-{name}.{uuid.uuid4().hex}.tmp"
        try:
            # Pages carry checksums; statistics, in the footer, have none, and a flipped bit in them would hide rows.
            pq.write_table(table, beside, compression="zstd", write_page_checksum=True, write_statistics=False)
            faults.point(f"{what}:torn", torn=beside)
            _sync(beside)
            faults.point(f"{what}:written")
            is_first = _link(beside, final)
            faults.point(f"{what}:linked")
            _sync(folder)
        finally:
            beside.unlink(missing_ok=True)
    faults.point(f"{what}:committed")
    return is_first


def sweep(folder: Path, older_than_s: float) -> list[Path]:
    """Remove what writers that were killed left half written; nobody who still writes is older than that.

    A file from the future, of a clock that was set back since, is left where it is.
    """
    swept = []
    for path in folder.glob("part-*.tmp"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()
                swept.append(path)
    return swept


def rows_to_table(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly `schema`; a column that a row does not name is null.

    Raises:
        KeyError: a row names a column that the schema lacks.
    """
    for row in rows:
        if unknown := row.keys() - set(schema.names):
            raise KeyError(f"not in the schema: {', '.join(sorted(unknown))}")
    return pa.Table.from_pylist([_clean(row) for row in rows], schema=schema)


def columns_to_table(columns: Mapping[str, Sequence[Any] | pa.Array], schema: pa.Schema) -> pa.Table:
    """Columns of equal length as a table of exactly `schema`."""
    return pa.Table.from_pydict(dict(columns), schema=schema)


def coded(codes: Any, values: Sequence[Any]) -> pa.Array:
    """A column of few different values, from the place of each row's in them."""
    return pa.array(values).take(pa.array(codes))


def alike(value: Any, num_rows: int) -> pa.Array:
    """A column that says the same in every row."""
    return pa.repeat(value, num_rows)


def read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns of one part (None: all of them), page checksums verified.

    Raises:
        StoreError: the part is damaged or is not ours.
    """
    try:
        # Not `read_table`: it scans a part as a data set, which takes a store of many parts twice as long.
        with pq.ParquetFile(path, page_checksum_verification=True) as part:
            table = part.read(columns and list(columns), use_threads=False)
        table = table.select(columns) if columns else table
        # Names are decoded when they are asked for; damage in them is met here.
        if not table.column_names:
            raise StoreError(f"{path}: a part without columns")
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError) as damage:
        raise StoreError(f"{path}: not a readable part: {damage}") from damage
    return table


def parts(folder: Path) -> list[Path]:
    """The committed parts of a folder, in name order."""
    with _translated(folder):
        return sorted(path for path in folder.glob("part-*.parquet") if path.is_file())


def _clean(row: dict[str, Any]) -> dict[str, Any]:
    """Arrow refuses lone surrogates, which hostile text can hold."""
    return {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in row.items()
    }


def _link(beside: Path, final: Path) -> bool:
    try:
        os.link(beside, final)
    except FileExistsError:
        return False
    except OSError as refusal:
        if refusal.errno not in NO_LINKS:
            raise
        # A file system without hard links: the rename is atomic, only "first wins" is not.
        if final.exists():
            return False
        beside.rename(final)
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        reason = failure.strerror or str(failure)
        mend = "free space or choose another folder with store.root="
        raise StoreError(f"cannot write {path}: {reason}; {mend}") from failure
