"""What the driver reads from the store and leaves there: ids recorded, the plan, the run, what is missing."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from orchestrator.config import Composed
from orchestrator.plan import Planned, Recorded, TrialKey, best
from orchestrator.secrets import without_secrets
from orchestrator.staleness import Stored
from workers import parquet
from workers.errors import StoreError
from workers.identity import canonical
from workers.schema import MISSING, PLAN, RUN
from workers.store import Store, table_schema


def recorded(store: Store, study: str) -> dict[TrialKey, Recorded]:
    """Every trial recorded by any run, with its best status."""
    columns = ("cell_id", "draw", "status", "generation")
    tables = store.readable(store.trials(study), columns)
    return best(row for table in tables for row in zip(*(table[name].to_pylist() for name in columns), strict=True))


def stored(store: Store, study: str) -> Iterator[Stored]:
    """What each recorded trial was asked, oldest part first."""
    columns = (*Stored._fields, "committed_at")
    tables = [table for table in store.readable(store.trials(study), columns) if table.num_rows]
    for table in sorted(tables, key=lambda table: table["committed_at"][0].as_py()):
        yield from (Stored(**{name: row[name] for name in Stored._fields}) for row in table.to_pylist())


def set_damaged_aside(store: Store) -> list[str]:
    """Move damaged parts out of the way; a line for each. Their trials are missing again."""
    return keep_aside(store, store.damaged())


def keep_aside(store: Store, paths: Sequence[Path]) -> list[str]:
    """Move these parts out of the way; a line for each."""
    lines = [f"{path} is damaged; kept as {store.set_aside(path)}" for path in paths]
    store.prepare()
    return lines


def next_sequence(store: Store) -> int:
    """One more than the highest run of this store."""
    tables = store.readable(store.runs, ("sequence",))
    return 1 + max((n for table in tables for n in table["sequence"].to_pylist()), default=0)


def write_plan(store: Store, composed: Composed, plan_id: str, planned: Sequence[Planned]) -> None:
    """Store the plan as a table, so that a missing trial is a row in a left join."""
    axes = composed.study.axes
    columns: dict[str, list[Any]] = {column.name: [] for column in (*PLAN, *axes)}
    for entry in planned:
        cell = entry.cell
        row = {
            "plan_id": plan_id,
            "grid": composed.run.name,
            "cell_id": cell.cell_id,
            "draw": entry.draw,
            "episode_id": cell.episode_id,
            "study": cell.episode.study,
            "model": cell.model,
            "arm": cell.arm,
            "temperature": cell.temperature,
            "parts": ",".join(cell.parts),
            "is_selected": cell.is_selected,
            "blocked": entry.blocked,
            **cell.episode.axes,
        }
        for name, values in columns.items():
            values.append(row[name])
    schema = table_schema((*PLAN, *axes))
    parquet.commit(store.plans, f"{composed.run.name}-{plan_id}", parquet.columns_to_table(columns, schema))


def write_run(store: Store, composed: Composed, plan_id: str, run_id: str, command: Sequence[str]) -> int:
    """Record that this run works on that plan; the run's place in the order of runs."""
    sequence = next_sequence(store)
    row = {
        "run_id": run_id,
        "sequence": sequence,
        "grid": composed.run.name,
        "plan_id": plan_id,
        "started_at": datetime.now(UTC),
        "command": shlex.join(map(_shown, command)),
        "config": canonical(snapshot(composed)),
        "versions": versions(),
        "commit": commit(),
        "host": socket.gethostname(),
    }
    parquet.commit(store.runs, run_id, parquet.rows_to_table([row], table_schema(RUN)))
    return sequence


def write_missing(store: Store, run_id: str, sequence: int, missing: Mapping[TrialKey, str]) -> None:
    """Record why trials of this run are missing."""
    if not missing:
        return
    rows = [
        {"run_id": run_id, "sequence": sequence, "cell_id": cell_id, "draw": draw, "reason": reason}
        for (cell_id, draw), reason in missing.items()
    ]
    parquet.commit(store.missing, run_id, parquet.rows_to_table(rows, table_schema(MISSING)))


def snapshot(composed: Composed) -> dict[str, Any]:
    """The configuration as it was composed, models included, without anything that looks like a secret."""
    run = composed.run.model_dump(mode="json")
    if composed.run.parts:
        said = {"models", "study", "exclude", "not_run"}
        run["study"] = {part.name: part.run.model_dump(mode="json", include=said) for part in composed.parts}
    models = {model.name: model.model_dump(mode="json") for model in composed.models}
    found: dict[str, Any] = without_secrets({**run, "model_files": models})
    return found


def _shown(argument: str) -> str:
    """An argument of the command line, its value left out where its key looks like a secret's."""
    key, equals, value = argument.partition("=")
    kept = without_secrets({key: value})
    return f"{key}{equals}{kept.get(key, '***')}"


def versions() -> str:
    """Versions of Residue, Python and the libraries that matter for the numbers."""
    names = ("residue", "torch", "transformers", "ray", "duckdb", "pyarrow")
    return ", ".join([f"python {sys.version.split()[0]}", *(f"{name} {_version(name)}" for name in names)])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def commit() -> str | None:
    """The checkout's git commit, with `+` when it has changes; None outside a checkout."""
    root = Path(__file__).resolve().parent.parent
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def check_writable(store: Store) -> None:
    """Make the store's folders.

    Raises:
        StoreError: it cannot be written.
    """
    if store.root.exists() and not store.root.is_dir():
        raise StoreError(f"the store {store.root} is a file; choose another folder with store.root=")
    if "\\" in str(store.root):
        raise StoreError(
            f"DuckDB reads no folder with a backslash in its name: {store.root}; choose another store.root="
        )
    store.prepare()
