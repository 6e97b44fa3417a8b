"""Every path that Residue writes is a property of one small class."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from workers import parquet, studies
from workers.errors import StoreError
from workers.identity import digest
from workers.schema import CORE, MISSING, PLAN, RUN, Column, arrow_schema


class Store:
    """A results folder: parts of trials by study, plans, runs, and why trials are missing.

    Raises:
        StoreError: at construction, when its path names a home that nobody has.
    """

    def __init__(self, root: str | Path) -> None:
        try:
            self.root = Path(root).expanduser().absolute()
        except RuntimeError as failure:
            raise StoreError(f"the store {str(root)!r} leads nowhere: {failure}") from None

    def trials(self, study: str) -> Path:
        """Parts of a study's trials."""
        return self.root / "trials" / study

    @property
    def plans(self) -> Path:
        """Parts of plans, one a plan."""
        return self.root / "plans"

    @property
    def runs(self) -> Path:
        """One-row parts, one a run."""
        return self.root / "runs"

    @property
    def missing(self) -> Path:
        """Why a run left trials missing."""
        return self.root / "missing"

    @property
    def aside(self) -> Path:
        """Damaged parts, moved out of the way of every glob and kept."""
        return self.root / "aside"

    @property
    def wandb(self) -> Path:
        """Where the tracker writes."""
        return self.root / "wandb"

    def prepare(self) -> None:
        """Make the folders, each with a zero-row part, so that views work on an empty store; sweep what was given up.

        Raises:
            StoreError: the store cannot be written.
        """
        for folder, schema in self._schemas():
            # Named by its columns, so that a column that a later version adds is there before the first row with it.
            parquet.commit(folder, f"empty-{digest(schema.to_string())[:8]}", schema.empty_table())
            parquet.sweep(folder, SWEPT_AFTER_S)

    def readable(self, folder: Path, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """The given columns of every sound part; one that is damaged or not ours is skipped (see `set_aside`)."""
        schema = dict(self._schemas())[folder]
        wanted = pa.schema([schema.field(name) for name in columns])
        for path in parquet.parts(folder):
            try:
                table = parquet.read(path, columns)
            except (StoreError, FileNotFoundError):
                continue
            if table.schema.equals(wanted):
                yield table

    def damaged(self) -> list[Path]:
        """Parts of which any byte that is read back is not what was written, or that are not ours."""
        schemas = dict(self._schemas())
        others = {folder: OTHERS for folder in self._folders_of_trials() if folder not in schemas}
        return [
            path
            for folder, schema in (schemas | others).items()
            for path in parquet.parts(folder)
            if not _is_ours(path, schema)
        ]

    def set_aside(self, path: Path) -> Path:
        """Move a damaged part out of the way, whole, and say where it went; nothing that is there is replaced.

        Raises:
            StoreError: the store cannot be written.
        """
        place = self.aside / f"{path.parent.name}-{path.stem}-{uuid.uuid4().hex[:12]}{path.suffix}"
        try:
            self.aside.mkdir(parents=True, exist_ok=True)
            return path.rename(place)
        except OSError as failure:
            raise StoreError(f"cannot set {path} aside: {failure.strerror}") from failure

    def _folders_of_trials(self) -> list[Path]:
        """Also of studies that this checkout does not know: the views read every one."""
        return sorted(path for path in self.root.glob("trials/*") if path.is_dir())

    def _schemas(self) -> Iterator[tuple[Path, pa.Schema]]:
        axes: dict[str, Column] = {}
        for name in studies.names():
            study = studies.get(name)
            axes |= {column.name: column for column in study.axes}
            yield self.trials(name), arrow_schema(name, study.columns)
        yield self.plans, table_schema((*PLAN, *axes.values()))
        yield self.runs, table_schema(RUN)
        yield self.missing, table_schema(MISSING)


SWEPT_AFTER_S = 24 * 3600.0
"""Age of a half-written file whose writer is dead; a block takes seconds to write, on whatever machine."""

OTHERS = pa.schema([(column.name, column.type) for column in CORE])
"""What is known of the trials of a study that this checkout does not have."""


def _is_ours(path: Path, schema: pa.Schema) -> bool:
    """Whether a part is sound and has our columns in our types.

    Earlier schemas have fewer columns; the first two, which say whose it is, they all have. Only a study that this
    checkout does not have brings columns of its own.
    """
    try:
        found = parquet.read(path)
    except StoreError:
        return False
    strange = set(found.column_names) - set(schema.names)
    return (
        set(schema.names[:2]) <= set(found.column_names)
        and (not strange or schema is OTHERS or _is_of_another_study(found))
        and all(field.type == schema.field(field.name).type for field in found.schema if field.name not in strange)
    )


def _is_of_another_study(found: pa.Table) -> bool:
    named = set(found["study"].to_pylist()) if "study" in found.column_names else set()
    return bool(named) and named.isdisjoint(studies.names())


def table_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of a table that is not a study's trials."""
    return pa.schema([(column.name, column.type) for column in columns])
