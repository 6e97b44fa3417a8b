"""What the driver reads from the store and leaves there: ids recorded, the plan, the run, what is missing."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from orchestrator.blocks import Missing
from orchestrator.config import Composed
from orchestrator.ids import Ids
from orchestrator.plan import Plan, Records
from orchestrator.secrets import without_secrets
from orchestrator.staleness import Stored
from workers import parquet
from workers.errors import StoreError
from workers.identity import canonical
from workers.schema import MISSING, PLAN, RUN
from workers.store import Store, table_schema


def records(store: Store, study: str) -> Iterator[Records]:
    """What any run recorded of any trial, part by part: a store's rows are never held at once."""
    for table in store.readable(store.trials(study), ("cell_id", "draw", "status", "generation")):
        ids, statuses = Ids.of(table["cell_id"].to_pylist()), table["status"].to_pylist()
        yield Records(ids, table["draw"].to_numpy(), statuses, table["generation"].to_numpy())


def stored(store: Store, study: str, planned: Ids) -> Iterator[Stored]:
    """What each recorded trial was asked, oldest part first, without those of planned cells."""
    columns = (*Stored._fields, "committed_at")
    tables = []
    for table in store.readable(store.trials(study), ("cell_id", *columns)):
        is_old = planned.find(Ids.of(table["cell_id"].to_pylist())) < 0
        if is_old.any():
            tables.append(table.select(columns).take(is_old.nonzero()[0]))
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


def write_plan(store: Store, composed: Composed, plan_id: str, planned: Plan) -> None:
    """Store the plan as a table, so that a missing trial is a row in a left join."""
    schema = table_schema((*PLAN, *composed.study.axes))
    table = parquet.columns_to_table(_plan_columns(composed, plan_id, planned), schema)
    parquet.commit(store.plans, f"{composed.run.name}-{plan_id}", table)


def _plan_columns(composed: Composed, plan_id: str, planned: Plan) -> dict[str, Any]:
    """Column → its value in each trial."""
    cells, cell = planned.cells, planned.cell
    rows, episodes, episode = cells.rows, cells.rows.episodes, cells.rows.episode[cell]
    treatment, model = rows.treatment[cell], episodes.model[episode]
    whole = {"plan_id": plan_id, "grid": composed.run.name, "study": composed.study.name}
    return {
        **{name: parquet.alike(value, len(planned)) for name, value in whole.items()},
        "cell_id": parquet.coded(cell, list(cells.ids)),
        "draw": planned.draw,
        "episode_id": parquet.coded(episode, list(episodes.ids)),
        "model": parquet.coded(model, episodes.models),
        "arm": parquet.coded(treatment, [one.arm for one in rows.treatments]),
        "temperature": parquet.coded(treatment, [one.temperature for one in rows.treatments]),
        "parts": parquet.coded(rows.union[cell], [",".join(parts) for parts in rows.unions]),
        "is_selected": planned.is_selected,
        "blocked": parquet.coded(model, [planned.blocked.get(name) for name in episodes.models]),
        **{axis: parquet.coded(episodes.codes[axis][episode], levels) for axis, levels in episodes.levels.items()},
    }


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


def write_missing(store: Store, run_id: str, sequence: int, planned: Plan, missing: Missing) -> None:
    """Record why trials of this run are missing."""
    if not len(missing.trials):
        return
    cell = planned.cell_of(missing.trials)
    columns = {
        "run_id": parquet.alike(run_id, len(cell)),
        "sequence": parquet.alike(sequence, len(cell)),
        "cell_id": [planned.cells.ids[at] for at in cell.tolist()],
        "draw": missing.trials - planned.first[cell],
        "reason": parquet.coded(missing.reason, missing.reasons),
    }
    parquet.commit(store.missing, run_id, parquet.columns_to_table(columns, table_schema(MISSING)))


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
