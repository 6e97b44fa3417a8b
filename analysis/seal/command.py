"""`seal` and `verify`: what they write and say, and the exit code."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.seal.document import NAME, ROWS, take, text
from analysis.seal.verify import Verdict, verify
from analysis.terminal import neutral, number

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse

MANY = 20
"""Files that are printed; rows by default."""


def seal_store(warehouse: Warehouse) -> str:
    """Write `seal.json` and its rows into the store; a line about it.

    Raises:
        AnalysisError: as of `take`.
    """
    path = warehouse.root / NAME
    beside = [path.with_name(f"{path.stem}.{uuid.uuid4().hex}{end}.tmp") for end in (ROWS, path.suffix)]
    try:
        seal = take(warehouse, beside[0])
        beside[1].write_text(text(seal), encoding="utf-8")
        # The rows first: a seal without its rows still holds.
        beside[0].replace(path.with_suffix(ROWS))
        beside[1].replace(path)
    finally:
        for draft in beside:
            draft.unlink(missing_ok=True)
    asked = "select count(distinct (cell_id, draw)) as num_trials from planned_trials"
    planned = warehouse.sql(asked).to_pylist()[0]["num_trials"]
    count = f"{seal.num_trials} of {planned} planned trials, {len(seal.columns)} columns, {len(seal.files)} parts"
    asked = f"{number(len(seal.plans), 'plan')}, {number(len(seal.runs), 'run')}"
    return f"{seal.root}  {neutral(str(path))}\n{count}, {asked}"


def verify_store(store: str, path: Path, num_rows: int, form: str) -> bool:
    """Print what is not as it was sealed; whether the result, the plan and the configurations are the sealed ones.

    Raises:
        AnalysisError: as of `verify`.
    """
    found = verify(store, path, num_rows)
    if form == "json":
        said = {"is_same": found.is_same, "root": found.root, "sealed_root": found.sealed_root}
        print(json.dumps(said | {"findings": [finding._asdict() for finding in found.findings]}, indent=1))
        return found.is_same
    files = [finding for finding in found.findings if finding.kind == "file" and not finding.is_difference]
    unsaid = set(files[MANY:])
    for finding in found.findings:
        if finding not in unsaid:
            print(neutral(str(finding)))
    if unsaid:
        print(f"and {len(unsaid)} more files; --format json lists them")
    print(_verdict(found))
    return found.is_same


def _verdict(found: Verdict) -> str:
    if not found.is_same:
        return f"not what was sealed: root {found.root}, sealed was {found.sealed_root}"
    alike = "the same result and the same bytes" if not found.findings else "the same result in other files"
    return f"{alike}: {number(found.num_trials, 'trial')}, root {found.root}"
