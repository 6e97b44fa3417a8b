"""Cells − recorded → what to run, and why the rest is not run. Pure.

A trial is a number: those of a cell are consecutive, one a draw, and cells keep their order. What is known of trials is
columns over these numbers; an object stands for a trial only where somebody looks at one alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orchestrator.cells import Cell, Cells
from orchestrator.ids import Bools, Ids, Ints

RANK = ("done", "invalid", "unsupported", "error")
"""The statuses, the better before the worse; any other ranks behind them."""


class State(StrEnum):
    """What the plan makes of one trial."""

    RUN = "to run"
    RECORDED = "recorded"
    BLOCKED = "blocked"
    UNSELECTED = "not selected"


STATES = tuple(State)


class Records(NamedTuple):
    """Records of trials, as columns: whose they are, what came of them and how often they had been recorded before."""

    ids: Ids
    draws: Ints
    statuses: Sequence[str]
    generations: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What the store holds of the trials of a grid.

    Attributes:
        names: statuses; `status` says of each trial which is its best, -1 where nothing is recorded.
        generation: the highest recorded, -1 where nothing is.
    """

    names: tuple[str, ...]
    status: npt.NDArray[np.int16]
    generation: npt.NDArray[np.int32]

    @property
    def is_recorded(self) -> Bools:
        """Whether there is any record of the trial."""
        found: Bools = self.status >= 0
        return found

    def has(self, status: str) -> Bools:
        """Whether this is the trial's best status."""
        found: Bools = self.status == self.names.index(status)
        return found


def first_trials(cells: Cells) -> Ints:
    """The number of each cell's first trial, and behind them the number of all trials."""
    return np.concatenate(([0], np.cumsum(cells.rows.num_draws)))


def known(cells: Cells, records: Iterable[Records]) -> Known:
    """The best status and the highest generation of each trial; records of other trials are passed over."""
    first = first_trials(cells)
    worst = np.iinfo(np.int16).max
    names = {name: code for code, name in enumerate(RANK)}
    status = np.full(first[-1], worst, dtype=np.int16)
    generation = np.full(first[-1], -1, dtype=np.int32)
    for batch in records:
        cell = cells.ids.find(batch.ids)
        ours = np.flatnonzero((cell >= 0) & (batch.draws >= 0) & (batch.draws < cells.rows.num_draws[cell]))
        trial = first[cell[ours]] + batch.draws[ours]
        codes = np.array([names.setdefault(name, len(names)) for name in batch.statuses], dtype=np.int16)
        np.minimum.at(status, trial, codes[ours])
        np.maximum.at(generation, trial, batch.generations[ours].astype(np.int32))
    return Known(tuple(names), np.where(status == worst, np.int16(-1), status), generation)


class Planned(NamedTuple):
    """One trial of the plan."""

    cell: Cell
    draw: int
    state: State
    generation: int
    blocked: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Every trial of a grid with its state, in the grid's order.

    Attributes:
        blocked: model → why it cannot run here.
        first: the number of each cell's first trial, and behind them the number of all trials.
        state: of each trial, as a place in `STATES`.
        generation: which one a run would record; 0 but for what is recorded again.
    """

    cells: Cells
    blocked: Mapping[str, str]
    first: Ints
    state: npt.NDArray[np.int8]
    generation: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.state)

    def __iter__(self) -> Iterator[Planned]:
        return (self[trial] for trial in range(len(self)))

    def __getitem__(self, trial: int) -> Planned:
        at = range(len(self))[trial]
        (cell,) = self.cell_of(np.array([at])).tolist()
        known = self.cells[cell]
        state, generation = STATES[self.state[at]], int(self.generation[at])
        return Planned(known, at - int(self.first[cell]), state, generation, self.blocked.get(known.model))

    def is_in(self, state: State) -> Bools:
        """Which trials are in that state."""
        found: Bools = self.state == STATES.index(state)
        return found

    def cell_of(self, trials: Ints) -> Ints:
        """The cell of each of these trials."""
        return np.searchsorted(self.first, trials, side="right") - 1

    def per_cell(self, trials: Bools) -> Ints:
        """How many of these trials each cell has."""
        before = np.concatenate(([0], np.cumsum(trials)))
        return before[self.first[1:]] - before[self.first[:-1]]

    @property
    def cell(self) -> Ints:
        """Of each trial its cell."""
        return np.repeat(np.arange(len(self.cells)), self.cells.rows.num_draws)

    @property
    def draw(self) -> Ints:
        """Of each trial its draw."""
        found: Ints = np.arange(len(self)) - np.repeat(self.first[:-1], self.cells.rows.num_draws)
        return found

    @property
    def is_selected(self) -> Bools:
        """Of each trial whether its cell is selected."""
        return np.repeat(self.cells.is_selected, self.cells.rows.num_draws)

    @property
    def model(self) -> Ints:
        """Of each trial its model, as a place in the models of the episodes."""
        return np.repeat(self.cells.model, self.cells.rows.num_draws)


def plan(cells: Cells, found: Known, blocked: Mapping[str, str], *, retry_errors: bool) -> Plan:
    """Every trial of these cells.

    Args:
        found: what is recorded of them.
        blocked: model → why it cannot run here.
        retry_errors: record again, as the next generation, what is recorded as an error.
    """
    first = first_trials(cells)
    models = cells.rows.episodes.models
    cannot = np.array([model in blocked for model in models], dtype=np.bool_)[cells.model]
    otherwise = np.where(cannot, STATES.index(State.BLOCKED), STATES.index(State.RUN))
    otherwise = np.where(cells.is_selected, otherwise, STATES.index(State.UNSELECTED))
    is_open = ~found.is_recorded
    if retry_errors:
        is_open |= found.has("error") & np.repeat(cells.is_selected, cells.rows.num_draws)
    state = np.where(is_open, np.repeat(otherwise, cells.rows.num_draws), STATES.index(State.RECORDED))
    generation = np.where(is_open, found.generation + 1, 0)
    return Plan(cells, blocked, first, state.astype(np.int8), generation.astype(np.int32))


def plan_id(planned: Plan) -> str:
    """Identity of the plan: of its trials, what was selected and what cannot run."""
    cells = planned.cells
    reasons = [planned.blocked.get(model, "") for model in cells.rows.episodes.models]
    columns = (cells.rows.num_draws.tolist(), cells.is_selected.tolist(), cells.model.tolist())
    found, lines = blake2b(digest_size=16), list[str]()
    for cell_id, num_draws, is_selected, model in zip(cells.ids, *columns, strict=True):
        lines += [f"{cell_id} {draw} {is_selected:d} {reasons[model]}" for draw in range(num_draws)]
        if len(lines) >= _LINES:
            # The separator goes with what follows it, and nothing may follow the last line.
            found.update("\n".join(lines[:-1]).encode("utf-8", "surrogatepass") + b"\n")
            lines = lines[-1:]
    found.update("\n".join(lines).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


_LINES = 4096


def by_model(planned: Plan, cells: Bools) -> dict[str, Counter[State]]:
    """Model → state → trials of these cells; models in the order in which they first come."""
    episodes, model = planned.cells.rows.episodes, planned.cells.model
    counts = np.stack([planned.per_cell(planned.is_in(state)) for state in STATES])
    found = {}
    for at in dict.fromkeys(model[cells].tolist()):
        sums = counts[:, cells & (model == at)].sum(axis=1).tolist()
        found[episodes.models[at]] = Counter(dict(zip(STATES, sums, strict=True)))
    return found
