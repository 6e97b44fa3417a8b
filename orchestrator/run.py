"""One run: the plan against the store, the blocks through the executor, what is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator import grid, ledger, plan, staleness
from orchestrator.config import Composed
from orchestrator.executors import make_executor
from orchestrator.executors.share import Share
from orchestrator.grid import Cell, Excluded, ModelIdentity, Unplanned
from orchestrator.listener import Audience, Listener, Start
from orchestrator.plan import Planned, Recorded, State, TrialKey
from orchestrator.schedule import Stop, run
from workers.block import Job
from workers.errors import ModelError
from workers.sources import content_digest, is_runnable
from workers.spec import ModelSpec
from workers.store import Store


@dataclass(frozen=True)
class Prepared:
    """A grid held against a store: every trial with its state."""

    composed: Composed
    store: Store
    models: dict[str, ModelIdentity]
    cells: list[Cell]
    excluded: tuple[Excluded, ...]
    unplanned: tuple[Unplanned, ...]
    planned: list[Planned]
    num_errors: int
    """Trials that are recorded as an error and stay so."""

    @property
    def specs(self) -> dict[str, ModelSpec]:
        """Model → its file."""
        return {model.name: model for model in self.composed.models}

    @property
    def blocked(self) -> dict[str, str]:
        """Model → why it cannot run here."""
        return {name: model.blocked for name, model in self.models.items() if model.blocked}


def prepare(composed: Composed) -> Prepared:
    """Expand the grid and subtract what the store holds. Writes nothing.

    Raises:
        ConfigError: the grid asks for something that does not exist.
    """
    store = Store(composed.run.store.root)
    models = {model.name: _identified(model) for model in composed.models}
    laid_out = grid.lay_out(composed, models)
    blocked = {name: model.blocked for name, model in models.items() if model.blocked}
    found = ledger.recorded(store, composed.study.name)
    planned = plan.plan(laid_out.cells, found, blocked, retry_errors=composed.run.retry == "error")
    kept = ((entry.cell.cell_id, entry.draw) for entry in planned if entry.state is State.RECORDED)
    num_errors = sum(found[key].status == "error" for key in kept)
    return Prepared(composed, store, models, laid_out.cells, laid_out.excluded, laid_out.unplanned, planned, num_errors)


def why_stale(prepared: Prepared) -> Counter[str]:
    """Reason → cells to run although the store holds a result under the same levels."""
    to_run = [entry for entry in prepared.planned if entry.state is State.RUN and entry.generation == 0]
    cells = {entry.cell.cell_id: entry.cell for entry in to_run}
    if not cells:
        return Counter()
    texts = {name: model.text for name, model in prepared.models.items()}
    planned = {cell.identity.text for cell in prepared.cells}
    stored = (row for row in ledger.stored(prepared.store, prepared.composed.study.name) if row.identity not in planned)
    return staleness.reasons(cells.values(), stored, texts, prepared.composed.study.before)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to, over the selected trials.

    Attributes:
        num_run: trials recorded by this run.
        statuses: status → selected trials, as the store now has them.
        missing: reason → selected trials without any record.
    """

    num_run: int
    statuses: Counter[str]
    missing: Counter[str]

    @property
    def is_complete(self) -> bool:
        """Nothing missing and nothing in error; invalid and unsupported trials are complete."""
        return not self.missing and not self.statuses["error"]


def carry_out(prepared: Prepared, run_id: str, command: Sequence[str], listeners: Sequence[Listener]) -> Result:
    """Record the plan and the run, compute what is to run, and record why the rest is missing.

    Raises:
        StoreError: the store cannot be written.
    """
    composed, store = prepared.composed, prepared.store
    identity = plan.plan_id(prepared.planned)
    ledger.write_plan(store, composed, identity, prepared.planned)
    sequence = ledger.write_run(store, composed, identity, run_id, command)
    blocks = plan.blocks(prepared.planned, composed.run.block_episodes)
    reasons: dict[TrialKey, str] = {}
    if blocks:
        executor = make_executor(composed.run.executor)
        shares = {model.name: executor.share(model.device) for model in composed.models}
        jobs = {model.name: _job(prepared, model, run_id, shares[model.name]) for model in composed.models}
        start = _start(prepared, run_id, executor.description, shares)
        Audience(listeners).tell(lambda listener: listener.started(start))
        try:
            with Stop() as stop:
                outcome = run(blocks, jobs, executor, listeners, stop)
        finally:
            executor.shutdown()
        reasons = outcome.missing
        ledger.write_missing(store, run_id, sequence, reasons)
    return _result(prepared, ledger.recorded(store, composed.study.name), reasons)


def _result(prepared: Prepared, found: dict[TrialKey, Recorded], reasons: dict[TrialKey, str]) -> Result:
    statuses: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    num_run = 0
    for entry in prepared.planned:
        if not entry.cell.is_selected:
            continue
        key = (entry.cell.cell_id, entry.draw)
        if key in found:
            statuses[found[key].status] += 1
            num_run += entry.state is State.RUN and found[key].generation >= entry.generation
        else:
            missing[reasons.get(key) or entry.blocked or "not run"] += 1
    return Result(num_run, statuses, missing)


def _identified(model: ModelSpec) -> ModelIdentity:
    reason = is_runnable(model.source)
    try:
        weights = content_digest(model.source)
    except ModelError as lack:
        weights, reason = f"absent: {model.source.model_dump_json()}", reason or str(lack)
    return grid.identify(model, weights, reason)


def _job(prepared: Prepared, model: ModelSpec, run_id: str, share: Share) -> Job:
    composed = prepared.composed
    return Job(
        model=model.model_copy(update={"device": share.device}),
        model_identity=prepared.models[model.name].text,
        study=composed.study.name,
        store=str(prepared.store.root),
        run_id=run_id,
        isolation=composed.run.isolation,
        kv_budget_mb=composed.run.kv_budget_mb,
        decode_once=composed.run.decode_once,
        num_threads=share.num_threads,
        slots_per_node=share.slots_per_node,
    )


def _start(prepared: Prepared, run_id: str, executor: str, shares: Mapping[str, Share]) -> Start:
    counts = plan.by_model(entry for entry in prepared.planned if entry.cell.is_selected)
    return Start(
        run_id=run_id,
        grid=prepared.composed.run.name,
        store=str(prepared.store.root),
        executor=executor,
        planned={model: states.total() for model, states in counts.items()},
        recorded={model: states[State.RECORDED] for model, states in counts.items()},
        to_run={model: states[State.RUN] for model, states in counts.items()},
        blocked=prepared.blocked,
        slots={name: str(share) for name, share in shares.items()},
    )
