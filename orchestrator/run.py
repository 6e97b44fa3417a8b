"""One run: the plan against the store, the blocks through the executor, what is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from orchestrator import blocks, grid, ledger, plan, staleness
from orchestrator.blocks import Missing, Range
from orchestrator.config import Composed
from orchestrator.executors import make_executor
from orchestrator.executors.base import Executor
from orchestrator.executors.share import Share
from orchestrator.executors.starting import Starting
from orchestrator.grid import Excluded, ModelIdentity, Unplanned
from orchestrator.listener import Audience, Listener, Start
from orchestrator.plan import Known, Plan, State
from orchestrator.schedule import Stop, Terms, run
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
    excluded: tuple[Excluded, ...]
    unplanned: tuple[Unplanned, ...]
    planned: Plan
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
    models = {model.name: identified(model) for model in composed.models}
    laid_out = grid.lay_out(composed, models)
    blocked = {name: model.blocked for name, model in models.items() if model.blocked}
    found = plan.known(laid_out.cells, ledger.records(store, composed.study.name))
    planned = plan.plan(laid_out.cells, found, blocked, retry_errors=composed.run.retry == "error")
    num_errors = int((planned.is_in(State.RECORDED) & found.has("error")).sum())
    return Prepared(composed, store, models, laid_out.excluded, laid_out.unplanned, planned, num_errors)


def why_stale(prepared: Prepared) -> Counter[str]:
    """Reason → cells to run although the store holds a result under the same levels."""
    planned = prepared.planned
    is_new = planned.per_cell(planned.is_in(State.RUN) & (planned.generation == 0)) > 0
    if not is_new.any():
        return Counter()
    cells = (planned.cells[at] for at in is_new.nonzero()[0].tolist())
    texts = {name: model.text for name, model in prepared.models.items()}
    stored = ledger.stored(prepared.store, prepared.composed.study.name, planned.cells.ids)
    return staleness.reasons(cells, stored, texts, prepared.composed.study.before)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to, over the selected trials.

    Attributes:
        num_run: trials recorded by this run.
        statuses: status → selected trials, as the store now has them.
        missing: reason → selected trials without any record.
        stopped: model → how it was found to compute wrongly.
    """

    num_run: int
    statuses: Counter[str]
    missing: Counter[str]
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Nothing missing, in error or computed wrongly; other invalid and unsupported trials are complete."""
        return not (self.missing or self.statuses["error"] or self.stopped)


def carry_out(prepared: Prepared, run_id: str, command: Sequence[str], listeners: Sequence[Listener]) -> Result:
    """Record the plan and the run, compute what is to run, and record why the rest is missing.

    Raises:
        StoreError: the store cannot be written.
    """
    composed, store, planned = prepared.composed, prepared.store, prepared.planned
    identity, queues, missing = plan.plan_id(planned), blocks.queues(planned), blocks.missing(())
    stopped: dict[str, str] = {}
    if not queues:
        ledger.write_plan(store, composed, identity, planned)
        ledger.write_run(store, composed, identity, run_id, command)
    else:
        with Starting(partial(make_executor, composed.run.executor)) as starting:
            ledger.write_plan(store, composed, identity, planned)
            executor = starting.executor
            shares = {model.name: executor.share(model.device) for model in composed.models}
            jobs = {model.name: _job(prepared, model, run_id, shares[model.name]) for model in composed.models}
            # The run's row tells what each slot took, not that it was left open.
            said = replace(composed, models=tuple(job.model for job in jobs.values()))
            sequence = ledger.write_run(store, said, identity, run_id, command)
            start = _start(prepared, run_id, executor.description, shares)
            Audience(listeners).tell(lambda listener: listener.started(start))
            cut = {name: _cut(composed, queue, executor, jobs[name]) for name, queue in queues.items()}
            with Stop() as stop:
                outcome = run(cut, jobs, executor, listeners, stop, Terms(composed.run.hang_s))
        missing, stopped = blocks.missing(outcome.missing), outcome.stopped
        ledger.write_missing(store, run_id, sequence, planned, missing)
    found = plan.known(planned.cells, ledger.records(store, composed.study.name))
    return replace(result(planned, found, missing), stopped=stopped)


def _cut(composed: Composed, queue: blocks.Queue, executor: Executor, job: Job) -> list[Range]:
    if size := composed.run.block_episodes:
        return queue.by_episodes(size)
    return blocks.begun_early(queue.in_blocks(blocks.num_blocks(queue.num_trials, max(1, executor.capacity(job)))))


def result(planned: Plan, found: Known, missing: Missing) -> Result:
    """What the selected trials of a plan came to.

    Args:
        found: what the store holds after the run.
        missing: what the run itself gave up.
    """
    is_selected, is_there = planned.is_selected, found.is_recorded
    counts = np.bincount(found.status[is_selected & is_there], minlength=len(found.names)).tolist()
    is_new = is_there & planned.is_in(State.RUN) & (found.generation >= planned.generation)
    names = (*missing.reasons, *(planned.blocked.get(model, "not run") for model in planned.cells.rows.episodes.models))
    why = len(missing.reasons) + planned.model
    why[missing.trials] = missing.reason
    reasons: Counter[str] = Counter()
    lacking = np.bincount(why[is_selected & ~is_there], minlength=len(names)).tolist()
    for name, count in zip(names, lacking, strict=True):
        reasons[name] += count
    statuses = Counter(dict(zip(found.names, counts, strict=True)))
    return Result(int((is_selected & is_new).sum()), +statuses, +reasons)


def identified(model: ModelSpec) -> ModelIdentity:
    """The model's identity on this machine, and why it cannot run here, if it cannot."""
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
    counts = plan.by_model(prepared.planned, prepared.planned.cells.is_selected)
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
