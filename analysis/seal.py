"""The seal of a store: SHA-256 over what every honest repetition of its trials gives again, by model and altogether.

Sealed are the columns that the schema marks so (ids, texts, statuses, replies, effects, verdicts); floats that a
machine may round otherwise, times, hosts and runs are not. A store that was resumed after any crash has the seal of one
that was never disturbed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.warehouse import Warehouse

NAME = "seal.json"
FORM = 1
"""Of the sealed text; raised when the same rows would be written otherwise."""


class Digest(NamedTuple):
    """How many trials of one model, and their digest."""

    num_trials: int
    sha256: str


Seal = dict[str, Digest]
"""Model → digest of its trials, those of the view `trials` that are recorded."""


def seal(warehouse: Warehouse) -> Seal:
    """Seal what the store shows now.

    Raises:
        AnalysisError: a part is damaged, or nothing is recorded.
    """
    columns = _sealed_columns(warehouse.root)
    listed = ", ".join(f'"{name}"' for name in columns)
    query = f"select {listed} from trials where status <> 'missing' order by model, cell_id, draw"
    rows = warehouse.sql(query).to_pylist() if columns else []
    if not rows:
        raise AnalysisError(f"nothing is recorded in {warehouse.root}: there is nothing to seal")
    return {model: _digest(group) for model, group in groupby(rows, key=lambda row: str(row["model"]))}


def combined(found: Seal) -> str:
    """One digest for the whole store."""
    return hashlib.sha256(_canonical({model: digest.sha256 for model, digest in found.items()})).hexdigest()


def text(found: Seal) -> str:
    """The seal as it is written to a file."""
    models = {model: digest._asdict() for model, digest in found.items()}
    return json.dumps({"form": FORM, "models": models, "combined": combined(found)}, indent=2, sort_keys=True) + "\n"


def differences(found: Seal, written: str) -> Iterator[str]:
    """Each model whose trials are not those of the written seal, and how.

    Raises:
        AnalysisError: the written seal is not one.
    """
    try:
        asked = json.loads(written)
        models = {str(model): Digest(**digest) for model, digest in asked["models"].items()}
        form, whole = asked["form"], asked["combined"]
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise AnalysisError(f"not a seal: {fault}") from None
    if form != FORM:
        raise AnalysisError(f"the seal has form {form}, and this version writes form {FORM}")
    if whole != combined(models):
        yield "the seal itself was changed: its digests do not make its combined one"
    for model in sorted(models.keys() | found.keys()):
        ours, theirs = found.get(model), models.get(model)
        if ours is None or theirs is None:
            yield f"{model}: {'not in the store' if ours is None else 'not in the seal'}"
        elif ours.num_trials != theirs.num_trials:
            yield f"{model}: {ours.num_trials} trials, sealed were {theirs.num_trials}"
        elif ours != theirs:
            yield f"{model}: as many trials, and not the same"


def _digest(rows: Iterator[Mapping[str, Any]]) -> Digest:
    state, count = hashlib.sha256(), 0
    for row in rows:
        # Without its nulls a row reads the same to a schema that has more columns.
        state.update(_canonical({name: value for name, value in row.items() if value is not None}) + b"\n")
        count += 1
    return Digest(count, state.hexdigest())


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode()


def _sealed_columns(root: Path) -> list[str]:
    """Names of the columns that some part's schema marks as sealed."""
    names: set[str] = set()
    for folder in sorted((root / "trials").iterdir()):
        # All parts of a study that one version wrote are alike, so the newest and the oldest say it all.
        parts = sorted(folder.glob("part-*.parquet"), key=lambda path: path.stat().st_mtime)
        for part in {*parts[:1], *parts[-1:]}:
            fields = pq.read_schema(part)
            names |= {field.name for field in fields if (field.metadata or {}).get(b"sealed") == b"true"}
    return sorted(names)
