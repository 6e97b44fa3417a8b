"""`mode=replay`: one recorded trial computed once more, alone, from what its row says; and whether that is the row."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.executors.inline import InlineExecutor
from orchestrator.run import identified
from orchestrator.staleness import changed_keys
from orchestrator.terminal import plain
from workers import parquet, studies
from workers.block import Block, Job, Row, Trial, Work
from workers.episode import Episode
from workers.errors import ConfigError, StoreError
from workers.identity import Identity, digest, libraries
from workers.schema import CORE, FLOAT, Column
from workers.spec import ModelSpec
from workers.store import Store
from workers.studies import Study
from workers.worker import Worker

Verdict = Literal["equal", "within the noise floor", "different"]

_ORDER = {status: at for at, status in enumerate(("done", "invalid", "unsupported", "error"))}
_NOISE = 100
"""× the row's Layer-1 tolerance, which is ten times the distance of two honest passes: a margin sums over steps."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One column in which the two differ.

    Attributes:
        where: what to look at in it.
        is_noise: two honest computations may lie as far apart.
    """

    column: str
    where: str
    is_noise: bool = False

    def __str__(self) -> str:
        """One line."""
        return f"{self.column}: {self.where}"


def verdict(differences: list[Difference]) -> Verdict:
    """What they come to."""
    if not differences:
        return "equal"
    return "within the noise floor" if all(one.is_noise for one in differences) else "different"


def recorded(store: Store, study: str, cell: str) -> Row:
    """The row that the views show of a trial, by its cell's id or the beginning of one, `/draw` behind it.

    Raises:
        ConfigError: no trial is meant, or several are.
    """
    prefix, _, draw = cell.partition("/")
    if not prefix or (draw and not draw.isdecimal()):
        raise ConfigError(
            f"cell={cell!r}: a cell's id or the beginning of one, with /draw behind it where it has several"
        )
    rows = [row for row in _beginning(store, study, prefix) if row["draw"] == int(draw or 0)]
    found = sorted({row["cell_id"] for row in rows})
    if not found:
        query = 'python -m analysis sql "select cell_id, draw, arm, reply from trials"'
        raise ConfigError(f"cell={cell!r}: {store.root} holds no such trial of {study}; {query} lists them")
    if len(found) > 1:
        raise ConfigError(f"cell={cell!r}: {len(found)} cells begin so: {', '.join(found[:3])}; say more of the id")
    return min(rows, key=lambda row: (_ORDER[row["status"]], row["committed_at"]))


def _beginning(store: Store, study: str, prefix: str) -> Iterator[Row]:
    """Rows of such cells, from sound parts."""
    for path in parquet.parts(store.trials(study)):
        with contextlib.suppress(StoreError, FileNotFoundError):
            ids = parquet.read(path, ("cell_id",))["cell_id"].to_pylist()
            if any(cell_id.startswith(prefix) for cell_id in ids):
                yield from (row for row in parquet.read(path).to_pylist() if row["cell_id"].startswith(prefix))


def doubts(row: Row, model_identity: str) -> Iterator[str]:
    """Why the computation may rightly give something else: the row was altered, or what it names has changed since."""
    identity = Identity.from_text(row["identity"])
    held = {
        "cell_id": identity.cell_id == row["cell_id"],
        "episode": identity.episode == Episode.from_text(row["episode"]).digest,
        "model_identity": identity.model == digest(row["model_identity"]),
    }
    for column, is_held in held.items():
        if not is_held:
            yield f"the row's {column} is not what its identity was made of"
    if row["model_identity"] != model_identity:
        before, now = json.loads(row["model_identity"]), json.loads(model_identity)
        yield f"the model changed since: {changed_keys(before, now)}"
    if identity.libraries != libraries():
        yield f"libraries changed since: {identity.libraries} → {libraries()}"


def work(row: Row) -> Work:
    """The trial as a worker takes it."""
    trial = Trial(row["arm"], Identity.from_text(row["identity"]), row["draw"], row["generation"])
    return Work(row["episode_id"], Episode.from_text(row["episode"]), (trial,))


def differences(row: Row, again: Row, study: Study, text: Callable[[list[int]], str]) -> list[Difference]:
    """Columns in which a row and its computation anew differ: sealed ones, and floats that no clock measured.

    Args:
        text: token ids → text.
    """
    found = []
    for column in (*CORE, *study.columns):
        if not (column.is_sealed or _is_measure(column)):
            continue
        one, other = row.get(column.name), again.get(column.name)
        if one != other:
            found.append(_difference(column, one, other, row, text))
    return found


def _is_measure(column: Column) -> bool:
    return column.type == FLOAT and not column.name.endswith("_ms") and column.name != "layer1_tolerance"


def _difference(
    column: Column, one: Any, other: Any, row: Mapping[str, Any], text: Callable[[list[int]], str]
) -> Difference:
    if column.name == "reply_ids" and one and other:
        at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        ours, theirs = (repr(text(ids[at : at + 1])) if at < len(ids) else "the end" for ids in (one, other))
        return Difference(column.name, f"token {at} is {ours} in the row and {theirs} now")
    if column.is_sealed or one is None or other is None:
        return Difference(column.name, f"{_short(one)} in the row and {_short(other)} now")
    near = _NOISE * (row["layer1_tolerance"] or 0.0) * max(1.0, abs(one))
    return Difference(column.name, f"{one:.6g} in the row and {other:.6g} now", abs(one - other) <= near)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def replay(store: Store, study_name: str, cell: str, model_of: Callable[[str], ModelSpec]) -> Iterator[str]:
    """Lines about the trial, what it gives now, and the verdict as the last one.

    Args:
        model_of: name → the model's file.

    Raises:
        ConfigError: no trial is meant, or its model cannot run here.
        ModelError: the model cannot be loaded.
    """
    row, study = recorded(store, study_name, cell), studies.get(study_name)
    model = model_of(row["model"])
    known = identified(model)
    if known.blocked:
        raise ConfigError(f"{model.name} cannot run here: {known.blocked}")
    yield f"{row['cell_id']}/{row['draw']}: {row['arm']} on {row['model']}, {row['status']}, of run {row['run_id']}"
    yield from (f"  {doubt}" for doubt in doubts(row, known.text))
    share = InlineExecutor().share(model.device)
    alone = model.model_copy(update={"device": share.device})
    job = Job(alone, known.text, study_name, str(store.root), row["run_id"], "strict", share.num_threads)
    worker = Worker(job)
    [again], _ = worker.rows(Block(model.name, (work(row),)))
    found = differences(row, again, study, worker.engine.text)
    yield from (f"  {plain(str(one))}" for one in found)
    yield verdict(found)
