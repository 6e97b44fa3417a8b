"""Cells − recorded → what to run, and why the rest is not run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from orchestrator.grid import Cell
from workers.block import Block, Trial, Work
from workers.identity import digest


class Recorded(NamedTuple):
    """What the store holds of one trial: its best status and how often it was recorded."""

    status: str
    generation: int


class State(StrEnum):
    """What the plan makes of one trial."""

    RUN = "to run"
    RECORDED = "recorded"
    BLOCKED = "blocked"
    UNSELECTED = "not selected"


@dataclass(frozen=True, slots=True)
class Planned:
    """One trial of the plan."""

    cell: Cell
    draw: int
    state: State
    generation: int
    blocked: str | None


TrialKey = tuple[str, int]
"""(cell_id, draw): what a trial is, and what resume works on."""

RANK = {"done": 0, "invalid": 1, "unsupported": 2, "error": 3}


def best(recorded: Iterable[tuple[str, int, str, int]]) -> dict[TrialKey, Recorded]:
    """(cell_id, draw, status, generation) rows → the best status and the highest generation of each trial."""
    found: dict[TrialKey, Recorded] = {}
    for cell_id, draw, status, generation in recorded:
        known = found.get((cell_id, draw))
        if known is None:
            found[cell_id, draw] = Recorded(status, generation)
        else:
            better = min(known.status, status, key=lambda name: RANK.get(name, len(RANK)))
            found[cell_id, draw] = Recorded(better, max(known.generation, generation))
    return found


def plan(
    cells: Sequence[Cell],
    recorded: Mapping[TrialKey, Recorded],
    blocked: Mapping[str, str],
    *,
    retry_errors: bool,
) -> list[Planned]:
    """One entry a trial, in the grid's order.

    Args:
        blocked: model → why it cannot run here.
        retry_errors: record again, as the next generation, what is recorded as an error.
    """
    return [
        _planned(cell, draw, recorded.get((cell.cell_id, draw)), blocked.get(cell.model), retry_errors)
        for cell in cells
        for draw in range(cell.num_draws)
    ]


def _planned(cell: Cell, draw: int, known: Recorded | None, blocked: str | None, retry_errors: bool) -> Planned:
    is_open = known is None or (retry_errors and known.status == "error" and cell.is_selected)
    generation = known.generation + 1 if known and is_open else 0
    if not is_open:
        state = State.RECORDED
    elif not cell.is_selected:
        state = State.UNSELECTED
    else:
        state = State.BLOCKED if blocked else State.RUN
    return Planned(cell, draw, state, generation, blocked)


MOST_TRIALS = 32
"""Trials of one episode beyond which its draws are shared out over several works."""


def blocks(planned: Iterable[Planned], block_episodes: int) -> dict[str, list[Block]]:
    """Model → its blocks: whole episodes, in the grid's order, so many episodes to a block.

    A block is small, so that little is lost with it (DESIGN §4.2): an episode of many draws counts as several, each
    with all arms of some of its draws.
    """
    works: dict[str, list[Work]] = {}
    to_run = (entry for entry in planned if entry.state is State.RUN)
    for _, entries in groupby(to_run, key=attrgetter("cell.episode_id")):
        for group in _by_draws(list(entries)):
            cell = group[0].cell
            trials = tuple(Trial(e.cell.arm, e.cell.identity, e.draw, e.generation) for e in group)
            works.setdefault(cell.model, []).append(Work(cell.episode_id, cell.episode, trials))
    return {
        model: [Block(model, tuple(found[at : at + block_episodes])) for at in range(0, len(found), block_episodes)]
        for model, found in works.items()
    }


def _by_draws(entries: list[Planned]) -> Iterator[list[Planned]]:
    """One episode's trials, cut between draws where they are too many."""
    if len(entries) <= MOST_TRIALS:
        yield entries
        return
    draws: dict[int, list[Planned]] = {}
    for entry in entries:
        draws.setdefault(entry.draw, []).append(entry)
    group: list[Planned] = []
    for _, same in sorted(draws.items()):
        if group and len(group) + len(same) > MOST_TRIALS:
            yield group
            group = []
        group = group + same
    yield group


def plan_id(planned: Iterable[Planned]) -> str:
    """Identity of the plan: of its trials, what was selected and what cannot run."""
    return digest("\n".join(f"{e.cell.cell_id} {e.draw} {e.cell.is_selected:d} {e.blocked or ''}" for e in planned))


def by_model(planned: Iterable[Planned]) -> dict[str, Counter[State]]:
    """Model → state → trials."""
    return {model: Counter(entry.state for entry in entries) for model, entries in of_models(planned).items()}


def of_models(planned: Iterable[Planned]) -> dict[str, list[Planned]]:
    """Model → its trials."""
    found: dict[str, list[Planned]] = {}
    for entry in planned:
        found.setdefault(entry.cell.model, []).append(entry)
    return found


def of_parts(planned: Iterable[Planned]) -> dict[str, list[Planned]]:
    """Part → its trials; a trial that several parts ask for is in each of them."""
    found: dict[str, list[Planned]] = {}
    for entry in planned:
        for part in entry.cell.parts:
            found.setdefault(part, []).append(entry)
    return found
