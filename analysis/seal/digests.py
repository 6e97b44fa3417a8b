"""Digests of rows, made in SQL: a text a value, a digest a column, a digest a row, a digest a model, one root.

A row's digest leaves out what is null, so that a schema with more columns reads the same rows the same; and it is of
the values alone, so parts, their order, times and hosts do not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.views import literal

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from analysis.warehouse import Warehouse

WHO = ("study", "model", "arm", "episode_id", "cell_id", "draw")
"""Who a row is, for whoever has to find it."""
SITUATION = ("surface", "effect_type", "policy", "vehicle", "strength", "kind")


class Digest(NamedTuple):
    """How many rows, and their digest."""

    num_rows: int
    sha256: str


def sealed_columns(root: Path) -> list[str]:
    """Names of the columns that some part's schema marks as sealed, in order.

    Raises:
        AnalysisError: no part marks any.
    """
    names: set[str] = set()
    for folder in sorted((root / "trials").iterdir()):
        # All parts of a study that one version wrote are alike, so the newest and the oldest say it all.
        parts = sorted(folder.glob("part-*.parquet"), key=lambda path: path.stat().st_mtime)
        for part in {*parts[:1], *parts[-1:]}:
            names |= set(_marked(part))
    if not names:
        raise AnalysisError(f"no part of {root} says which of its columns are sealed: there is nothing to seal")
    return sorted(names)


def types(warehouse: Warehouse, view: str) -> dict[str, str]:
    """Column of a view → its DuckDB type."""
    return {row["column_name"]: row["column_type"] for row in warehouse.sql(f"describe from {view}").to_pylist()}


def digests(view: str, columns: Sequence[str], known: Mapping[str, str], keep: Sequence[str]) -> str:
    """A query: for each row of a view the columns to `keep`, `digests` (64 bits a column, in order) and `row`.

    Args:
        columns: the columns that count; one that is not `known` is null.
        known: column of the view → its DuckDB type.
        keep: SQL expressions, such as `cell_id` or `1 as one`.
    """
    hashed = ", ".join(f"sha256({_text(name, known)}) as {_quoted(f'sha256 of {name}')}" for name in columns)
    names = [_quoted(f"sha256 of {name}") for name in columns]
    short = ", ".join(f"('0x' || left({name}, 16))::ubigint" for name in names)
    # Each value is 64 digits, so the text says of every digest whose it is.
    whole = " || ".join(
        f"coalesce({literal(f'{column}=')} || {name} || ';', '')" for column, name in zip(columns, names, strict=True)
    )
    return (
        f"select * exclude ({', '.join(names)}), [{short}] as digests, sha256({whole}) as row "
        f"from (select {', '.join(keep)}, {hashed} from {view})"
    )


def who(known: Mapping[str, str]) -> list[str]:
    """Expressions for who a row is, and its situation in words."""
    said = ", ".join(name for name in SITUATION if name in known)
    return [*WHO, f"concat_ws(' ', {said}) as situation" if said else "'' as situation"]


def folded(batches: Iterable[pa.RecordBatch], by: str) -> dict[str, Digest]:
    """Group → how many rows and the digest of their `row` digests, in the order in which they come."""
    states: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for batch in batches:
        for group, row in zip(batch.column(by).to_pylist(), batch.column("row").to_pylist(), strict=True):
            name = str(group)
            if name not in states:
                states[name], counts[name] = hashlib.sha256(), 0
            states[name].update(bytes.fromhex(row))
            counts[name] += 1
    return {name: Digest(counts[name], state.hexdigest()) for name, state in sorted(states.items())}


def root_of(groups: Mapping[str, Digest]) -> str:
    """One digest over the groups'."""
    return hashlib.sha256(canonical({name: list(digest) for name, digest in groups.items()})).hexdigest()


def canonical(value: Any) -> bytes:
    """One text for one JSON value."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode()


def _marked(part: Path) -> Iterator[str]:
    """Columns that a part's schema marks as sealed; none of a part that cannot be read."""
    try:
        fields = pq.read_schema(part)
    except (OSError, ValueError):
        return
    yield from (field.name for field in fields if (field.metadata or {}).get(b"sealed") == b"true")


def _text(name: str, known: Mapping[str, str]) -> str:
    """A column as one text a value."""
    if name not in known:
        return "null::varchar"
    return _quoted(name) if known[name] == "VARCHAR" else f"to_json({_quoted(name)})::varchar"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
