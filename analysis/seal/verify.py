"""A store held to its seal: which file, which row and which column is not what was sealed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.errors import AnalysisError
from analysis.seal.digests import Digest, root_of
from analysis.seal.document import (
    ROWS,
    Seal,
    digests_of_files,
    models_of,
    parsed,
    plans_of,
    rows_query,
    runs_of,
    sha256_of,
)
from analysis.terminal import number
from analysis.views import literal, pattern
from analysis.warehouse import connect, existing, unreadable

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse


ID_DIGITS = 12
"""Of an episode's id: enough to find it by."""


class Finding(NamedTuple):
    """One thing that is not as it was sealed."""

    kind: str
    """seal, file, result, row, column, plan or run."""
    what: str
    why: str
    is_difference: bool = True
    """False where only bytes differ and what they say may be the same."""

    def __str__(self) -> str:
        """One line."""
        return f"{self.what}: {self.why}"


class Verdict(NamedTuple):
    """What holding a store to its seal comes to."""

    root: str
    """Of the store, now."""
    sealed_root: str
    num_trials: int
    findings: list[Finding]

    @property
    def is_same(self) -> bool:
        """Whether the result, the plan and the configurations are those that were sealed."""
        return not any(finding.is_difference for finding in self.findings)


def verify(store: str | Path, path: Path, num_rows: int) -> Verdict:
    """Hold a store to the seal at `path`.

    Args:
        num_rows: how many of the rows that differ are named.

    Raises:
        AnalysisError: there is no store or no seal, or the seal is of another form.
    """
    seal, edits = parsed(_read(path))
    root = existing(store)
    rows = path.with_suffix(ROWS)
    findings = [Finding("seal", path.name, edit) for edit in edits]
    if is_foreign := rows.exists() and sha256_of(rows) != seal.rows:
        findings.append(Finding("seal", rows.name, "the rows beside the seal were changed"))
    findings += _of_files(seal.files, digests_of_files(root), root)
    damaged = {root / finding.what for finding in findings if finding.kind == "file" and finding.is_difference}
    with connect(root, beside=[path.parent], without=damaged) as warehouse:
        models = models_of(warehouse, seal.columns)
        if models != seal.models:
            findings += (Finding("result", f"model {name}", why) for name, why in _unequal(seal.models, models))
            findings += (
                _of_rows(warehouse, seal, rows, num_rows) if rows.exists() and not is_foreign else [_untold(rows)]
            )
        findings += _of_plans(seal.plans, plans_of(warehouse))
        findings += _of_runs(seal.runs, runs_of(warehouse))
    return Verdict(root_of(models), seal.root, sum(digest.num_rows for digest in models.values()), findings)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise AnalysisError(f"no seal at {path}: `python -m analysis seal` writes one") from None


def _of_files(sealed: Mapping[str, str], found: Mapping[str, str], root: Path) -> Iterator[Finding]:
    """Parts with other bytes than were sealed; only one that cannot be read is a difference by itself."""
    suspects = [name for name, digest in found.items() if sealed.get(name) != digest]
    damaged = set(unreadable(root / name for name in suspects))
    for name in sorted(sealed.keys() | suspects):
        if root / name in damaged:
            yield Finding("file", name, "damaged: it cannot be read")
        elif name not in found:
            yield Finding("file", name, "is gone", is_difference=False)
        elif name in suspects:
            why = "other bytes than were sealed" if name in sealed else "is not in the seal"
            yield Finding("file", name, why, is_difference=False)


def _untold(rows: Path) -> Finding:
    return Finding("seal", rows.name, "without the sealed rows beside the seal nobody can tell which rows differ")


def _of_rows(warehouse: Warehouse, seal: Seal, rows: Path, num_rows: int) -> Iterator[Finding]:
    """The rows that differ, then the columns."""
    there = warehouse.whole(f"select *, cell_id as question from ({rows_query(warehouse, seal.columns)})")
    warehouse.hold_pair(f"select *, cell_id as question from read_parquet({literal(pattern(rows))})", there)
    listed = "select *, count(*) over () as num_rows from changed_rows limit ?"
    found = warehouse.of_pair(listed, [max(1, num_rows)]).to_pylist()
    yield from (_of_row(row, seal.columns) for row in found[:num_rows])
    if found and found[0]["num_rows"] > num_rows:
        yield Finding("row", "and more", f"{found[0]['num_rows']} rows differ; --rows shows more of them")
    for column in warehouse.of_pair("from changed_columns").to_pylist():
        name, count = _column(seal.columns, column["place"]), number(column["num_rows"], "row")
        yield Finding("column", f"column {name}", f"differs in {count}")


def _of_row(row: Mapping[str, Any], columns: tuple[str, ...]) -> Finding:
    place = ", ".join(filter(None, (row["model"], row["arm"], row["situation"])))
    what = f"{row['cell_id']}/{row['draw']} ({place}, episode {str(row['episode_id'])[:ID_DIGITS]})"
    changed = ", ".join(_column(columns, place) for place in row["places"] or ())
    why = f"changed in {changed}" if row["change"] == "changed" else row["change"]
    return Finding("row", what, f"{why}, in {row['part']}")


def _column(columns: tuple[str, ...], place: int) -> str:
    """A column's name; its place where the seal was edited and names fewer than its rows have."""
    return columns[place - 1] if place <= len(columns) else f"number {place}"


def _of_plans(sealed: Mapping[str, Digest], found: Mapping[str, Digest]) -> Iterator[Finding]:
    yield from (Finding("plan", f"latest plan of grid {grid}", why) for grid, why in _unequal(sealed, found))


def _unequal(sealed: Mapping[str, Digest], found: Mapping[str, Digest]) -> Iterator[tuple[str, str]]:
    """Each group that is not as it was sealed, and how."""
    for name in sorted(sealed.keys() | found.keys()):
        ours, theirs = found.get(name), sealed.get(name)
        if ours is None or theirs is None:
            yield name, "is not in the store" if ours is None else "is not in the seal"
        elif ours.num_rows != theirs.num_rows:
            yield name, f"{number(ours.num_rows, 'trial')}, sealed were {theirs.num_rows}"
        elif ours != theirs:
            yield name, "as many trials, and not the same"


def _of_runs(sealed: Mapping[str, Mapping[str, str]], found: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Runs whose configuration, or what else is stored of them, changed.

    Another store of the same result has other runs, and a run that came later takes nothing back: neither is by itself
    a difference.
    """
    for name in sorted(sealed):
        if name not in found:
            yield Finding("run", f"run {name}", "is not in the store, nor is its configuration", is_difference=False)
        elif changed := _changed(sealed[name], found[name]):
            yield Finding("run", f"run {name}", f"changed in {', '.join(changed)}")
    for name in sorted(found.keys() - sealed.keys()):
        yield Finding("run", f"run {name}", "came after the seal", is_difference=False)


def _changed(sealed: Mapping[str, str], found: Mapping[str, str]) -> Iterable[str]:
    return [name for name in sorted(sealed.keys() | found.keys()) if sealed.get(name) != found.get(name)]
