"""What a seal holds, and its JSON: one root over the result, digests of plans, configurations and parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import AnalysisError
from analysis.seal.digests import WHO, Digest, canonical, digests, folded, root_of, sealed_columns, types, who
from analysis.values import jsonable
from analysis.views import parts

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse

NAME, ROWS = "seal.json", ".parquet"
"""The seal's file in its store, and how the file of its rows ends, which is beside it."""
FORM = 2
"""Of the sealed texts; raised when the same rows would be digested otherwise."""
_LATER = ("run_id", "generation", "committed_at")
_RECORD = ("cell_id", "draw", *_LATER)
"""What tells a record from another of its trial."""


@dataclass(frozen=True, slots=True)
class Seal:
    """A store at one moment.

    Attributes:
        columns: the sealed columns, in the order of each row's digests.
        models: model → its trials that `trials` shows; the root is over these alone.
        plans: grid → its latest plan.
        runs: run → column → SHA-256 of what is stored of it, its configuration among them.
        files: part, from the store's root → SHA-256.
        rows: SHA-256 of the file of rows.
    """

    columns: tuple[str, ...]
    models: Mapping[str, Digest]
    plans: Mapping[str, Digest]
    runs: Mapping[str, Mapping[str, str]]
    files: Mapping[str, str]
    rows: str

    @property
    def root(self) -> str:
        """The same for every honest repetition of the same trials, whatever parts, order or resumes it took."""
        return root_of(self.models)

    @property
    def num_trials(self) -> int:
        """How many trials the root is over."""
        return sum(digest.num_rows for digest in self.models.values())


def take(warehouse: Warehouse, rows: Path) -> Seal:
    """Seal what a store shows now, and write a line a trial to the file `rows`.

    Raises:
        AnalysisError: a part is damaged, nothing is recorded, or a run is at work in the store.
    """
    files = digests_of_files(warehouse.root)
    columns = sealed_columns(warehouse.root)
    models = _written(warehouse, columns, rows)
    if not models:
        raise AnalysisError(f"nothing is recorded in {warehouse.root}: there is nothing to seal")
    seal = Seal(tuple(columns), models, plans_of(warehouse), runs_of(warehouse), files, sha256_of(rows))
    if digests_of_files(warehouse.root) != files:
        raise AnalysisError(f"{warehouse.root} changed while it was being sealed: seal it when no run is at work in it")
    return seal


def rows_query(warehouse: Warehouse, columns: Sequence[str]) -> str:
    """A query: every trial that counts, who it is, its digests and the part in which it stands.

    Rows are digested as they are read, and only then is it chosen which count, so that their texts are never held. Two
    records of equal keys count once where they are equal, and both where they are not.
    """
    found = digests("trials_all", columns, types(warehouse, "trials_all"), [*who(types(warehouse, "trials")), *_LATER])
    chosen = " and ".join(f"found.{key} is not distinct from {{side}}.{key}" for key in _RECORD)
    said = ", ".join(f"found.{name}" for name in (*WHO, "situation"))
    return (
        f"select {said}, any_value(found.digests) as digests, found.row, min(placed.part) as part "
        f"from ({found}) as found "
        f"join (select {', '.join(_RECORD)} from trials) as counted on {chosen.format(side='counted')} "
        f"left join record_parts as placed on {chosen.format(side='placed')} "
        f"group by {said}, found.row"
    )


def models_of(warehouse: Warehouse, columns: Sequence[str]) -> dict[str, Digest]:
    """Model → digest of its trials."""
    query = f"select model, row from ({rows_query(warehouse, columns)}) order by model, cell_id, draw, row"
    return folded(warehouse.batches(query), "model")


def plans_of(warehouse: Warehouse) -> dict[str, Digest]:
    """Grid → digest of its latest plan."""
    known = types(warehouse, "planned_trials")
    found = digests("planned_trials", sorted(known), known, ["grid", "cell_id", "draw"])
    return folded(warehouse.batches(f"select grid, row from ({found}) order by grid, cell_id, draw"), "grid")


def runs_of(warehouse: Warehouse) -> dict[str, dict[str, str]]:
    """Run → column → digest of what is stored."""
    return {
        str(row["run_id"]): {
            name: hashlib.sha256(canonical(jsonable(value))).hexdigest()
            for name, value in row.items()
            if value is not None
        }
        for row in warehouse.sql("from runs order by run_id").to_pylist()
    }


def digests_of_files(root: Path) -> dict[str, str]:
    """Part, from the store's root → SHA-256."""
    return {path.relative_to(root).as_posix(): sha256_of(path) for path in parts(root)}


def sha256_of(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text(seal: Seal) -> str:
    """The seal as it is written to a file."""
    said = {
        "form": FORM,
        "root": seal.root,
        "num_trials": seal.num_trials,
        "models": {name: digest._asdict() for name, digest in seal.models.items()},
        "plans": {name: digest._asdict() for name, digest in seal.plans.items()},
        "runs": seal.runs,
        "files": seal.files,
        "columns": seal.columns,
        "rows": seal.rows,
    }
    return json.dumps(said | {"sha256": own_digest(said)}, indent=1) + "\n"


def parsed(written: str) -> tuple[Seal, list[str]]:
    """A written seal, and why it is not the one that was written.

    Raises:
        AnalysisError: it is no seal, or one of another form.
    """
    try:
        said = json.loads(written)
        if said["form"] != FORM:
            raise AnalysisError(
                f"the seal has form {said['form']}, and this version reads form {FORM}: seal the store anew, "
                "after comparing it by the version that wrote the seal"
            )
        models, plans = (
            {str(name): Digest(int(digest["num_rows"]), str(digest["sha256"])) for name, digest in said[key].items()}
            for key in ("models", "plans")
        )
        runs = {str(run): {str(k): str(v) for k, v in columns.items()} for run, columns in said["runs"].items()}
        files = {str(path): str(digest) for path, digest in said["files"].items()}
        seal = Seal(tuple(map(str, said["columns"])), models, plans, runs, files, str(said["rows"]))
        return seal, list(_edits(said, seal))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise AnalysisError(f"not a seal: {type(fault).__name__}: {fault}") from None


def _edits(said: dict[str, Any], seal: Seal) -> Iterator[str]:
    if said["root"] != seal.root:
        yield "the seal itself was changed: its models' digests do not make its root"
    elif said.get("sha256") != own_digest({name: value for name, value in said.items() if name != "sha256"}):
        yield "the seal itself was changed: it does not have the digest that it was written with"


def own_digest(said: Mapping[str, Any]) -> str:
    """Of a seal's JSON, by which it says that nobody edited it."""
    return hashlib.sha256(canonical(said)).hexdigest()


def _written(warehouse: Warehouse, columns: list[str], path: Path) -> dict[str, Digest]:
    """Write the rows' file while the rows pass; model → digest of its trials."""
    query = f"from ({rows_query(warehouse, columns)}) order by model, cell_id, draw, row"
    with _Copy(path) as copy:
        return folded(copy.of(warehouse.batches(query)), "model")


class _Copy:
    """A Parquet file of the batches that pass, without the digest of the whole row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: pq.ParquetWriter | None = None

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = batch.select([name for name in batch.schema.names if name != "row"])
            self.writer = self.writer or pq.ParquetWriter(self.path, kept.schema, compression="zstd")
            self.writer.write_batch(kept)
            yield batch

    def __enter__(self) -> _Copy:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            self.writer.close()
