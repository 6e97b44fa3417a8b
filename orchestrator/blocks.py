"""What is to run → blocks. In the driver a block is a range of trials; its texts are written when it is sent. Pure.

Episodes that begin with the same turns are neighbours, wherever the grid has them: what a worker prefills once for a
block it prefills for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from orchestrator.ids import Ints
from orchestrator.plan import Plan, State
from workers.block import Block, Trial, Work

MOST_TRIALS = 32
"""Trials of one episode beyond which its draws are shared out over several works."""
LEAST_IN_BLOCK, MOST_IN_BLOCK = 64, 480
"""Trials of a block whose size nobody says: enough to share prefixes and to batch, not too many to lose at once."""
ROUNDS = 2
"""Blocks that each slot should get at least, so that slots end together."""


def num_blocks(num_trials: int, num_slots: int) -> int:
    """Into how many blocks of about equal size a model's trials are cut.

    As many as give each slot `ROUNDS`, but not so many that a block has less than `LEAST_IN_BLOCK` trials (few trials
    are still cut in two, so that half of them are committed early), and so many that none has more than
    `MOST_IN_BLOCK`.
    """
    most = max(2, num_trials // LEAST_IN_BLOCK)
    least = -(-num_trials // MOST_IN_BLOCK)
    return max(1, least, min(ROUNDS * num_slots, most))


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """What one model has to run: works one behind the other.

    Attributes:
        trials: their numbers in the plan, work by work.
        edges: where each work begins in them, and behind it where the last one ends.
    """

    plan: Plan
    model: str
    trials: Ints
    edges: Ints

    @property
    def num_trials(self) -> int:
        """Trials to run."""
        return len(self.trials)

    def by_episodes(self, size: int) -> list[Range]:
        """So many works to a block."""
        num_works = len(self.edges) - 1
        return [Range(self, at, min(at + size, num_works)) for at in range(0, num_works, size)]

    def in_blocks(self, number: int) -> list[Range]:
        """At most so many blocks, about equal in trials."""
        wanted = np.linspace(0, self.num_trials, number + 1)
        behind = np.searchsorted(self.edges, wanted).clip(1)
        is_nearer = wanted - self.edges[behind - 1] < self.edges[behind] - wanted
        cuts = np.unique(np.where(is_nearer, behind - 1, behind)).tolist()
        return [Range(self, start, stop) for start, stop in pairwise(cuts)]

    def work(self, number: int, within: slice = slice(None)) -> Work:
        """One work, with its episode's texts; of its trials those `within`."""
        plan, cells = self.plan, self.plan.cells
        trials = self.trials[self.edges[number] : self.edges[number + 1]][within]
        at = plan.cell_of(trials)
        draws, generations = (trials - plan.first[at]).tolist(), plan.generation[trials].tolist()
        episode = int(cells.rows.episode[at[0]])
        treated = {cell: (cells.arm(cell), cells.identity(cell)) for cell in dict.fromkeys(at.tolist())}
        asked = zip(at.tolist(), draws, generations, strict=True)
        return Work(
            cells.rows.episodes.ids[episode],
            cells.rows.episodes.made(episode),
            tuple(Trial(*treated[cell], draw, generation) for cell, draw, generation in asked),
        )


@dataclass(frozen=True, slots=True)
class Range:
    """A block before it is submitted: works of a queue, from `start` up to `stop`; `is_early` as in `Block`.

    Attributes:
        share: of the queue's trials the first and the one behind the last, where not all of the works' are in it.
    """

    queue: Queue
    start: int
    stop: int
    is_early: bool = False
    share: tuple[int, int] | None = None

    @property
    def num_trials(self) -> int:
        """Trials to record."""
        first, last = self._ends
        return last - first

    @property
    def num_episodes(self) -> int:
        """Works in it."""
        return self.stop - self.start

    @property
    def trials(self) -> Ints:
        """The numbers of its trials in the plan."""
        return self.queue.trials[slice(*self._ends)]

    def halves(self) -> tuple[Range, Range]:
        """Two smaller ones, equal in trials, so that one of them is found in as few steps as can be."""
        first, last = self._ends
        middle = (first + last) // 2
        return self._cut(first, middle), self._cut(middle, last)

    def made(self, attempt: int = 1) -> Block:
        """The block as a worker takes it, the so many-th time."""
        first, last = self._ends
        edges = self.queue.edges[self.start : self.stop].tolist()
        within = (slice(max(0, first - edge), last - edge) for edge in edges)
        works = tuple(self.queue.work(self.start + at, some) for at, some in enumerate(within))
        return Block(self.queue.model, works, self.is_early, attempt)

    def _cut(self, first: int, last: int) -> Range:
        edges = self.queue.edges
        start, stop = np.searchsorted(edges, first, side="right") - 1, np.searchsorted(edges, last)
        return replace(self, start=int(start), stop=int(stop), share=(first, last))

    @property
    def _ends(self) -> tuple[int, int]:
        return self.share or (int(self.queue.edges[self.start]), int(self.queue.edges[self.stop]))


def begun_early(blocks: list[Range]) -> list[Range]:
    """The same, with one episode alone in front: its rows are there soon, and an arm that fails shows at once."""
    if not blocks or blocks[0].num_episodes == 1:
        return blocks
    queue, start, stop = blocks[0].queue, blocks[0].start, blocks[0].stop
    return [Range(queue, start, start + 1, is_early=True), Range(queue, start + 1, stop), *blocks[1:]]


def queues(plan: Plan) -> dict[str, Queue]:
    """Model → what it has to run; models in the order in which they first come."""
    trials = np.flatnonzero(plan.is_in(State.RUN))
    models = plan.cells.model[plan.cell_of(trials)]
    names = plan.cells.rows.episodes.models
    return {names[at]: _queue(plan, names[at], trials[models == at]) for at in dict.fromkeys(models.tolist())}


def _queue(plan: Plan, model: str, trials: Ints) -> Queue:
    """Whole episodes, but one of many draws counts as several works, each with all arms of some of its draws.

    Little is lost with a block that way (DESIGN §4.2).
    """
    rank = plan.cells.rows.episodes.rank[plan.cells.rows.episode[plan.cell_of(trials)]]
    trials = trials[np.argsort(rank, kind="stable")]
    cells = plan.cell_of(trials)
    edges = _edges(plan.cells.rows.episode[cells])
    if np.diff(edges).max(initial=0) > MOST_TRIALS:
        draws = trials - plan.first[cells]
        shares = np.concatenate([_shares(draws[a:b]) for a, b in pairwise(edges.tolist())])
        work = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        # Inside a work the trials keep their order, so that the draws of an arm stand together.
        order = np.lexsort((shares, work))
        trials, edges = trials[order], _edges(work[order], shares[order])
    return Queue(plan, model, trials, edges)


def _edges(*columns: Ints) -> Ints:
    """Where any of the columns changes, the beginning and the end included."""
    length = len(columns[0])
    changes = np.flatnonzero(np.any([np.diff(column) != 0 for column in columns], axis=0)) + 1
    return np.concatenate(([0], changes, [length])) if length else np.zeros(1, dtype=np.int64)


def _shares(draws: Ints) -> Ints:
    """Of each trial of an episode its work, from 0: as many whole draws to a work as `MOST_TRIALS` allows, but one."""
    if len(draws) <= MOST_TRIALS:
        return np.zeros(len(draws), dtype=np.int64)
    counts = np.bincount(draws)
    share, held = np.zeros(len(counts), dtype=np.int64), 0
    for draw, count in enumerate(counts.tolist()):
        is_full = held > 0 and held + count > MOST_TRIALS
        share[draw] = share[draw - 1] + is_full if draw else 0
        held = count if is_full else held + count
    return share[draws]


class Missing(NamedTuple):
    """Trials that a run left without a record, and why: `reason` says of each which of the reasons."""

    trials: Ints
    reason: Ints
    reasons: tuple[str, ...]


def missing(given_up: Sequence[tuple[Range, str]]) -> Missing:
    """The trials of blocks that were given up, each with its block's reason."""
    reasons = {reason: None for _, reason in given_up}
    codes = {reason: code for code, reason in enumerate(reasons)}
    trials = [block.trials for block, _ in given_up]
    reason = [np.full(block.num_trials, codes[reason]) for block, reason in given_up]
    none = np.zeros(0, dtype=np.int64)
    return Missing(np.concatenate([none, *trials]), np.concatenate([none, *reason]), tuple(reasons))
