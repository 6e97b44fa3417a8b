"""A plan from cells and from what is said to be recorded of them, and its blocks with their texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from orchestrator.blocks import queues
from orchestrator.cells import Cells
from orchestrator.ids import Ids
from orchestrator.plan import Plan, Records, known, plan
from workers.block import Block, Trial, Work

Row = tuple[str, int, str, int]
"""(cell_id, draw, status, generation)."""


def records(rows: Iterable[Row]) -> Records:
    """Records as the store gives them."""
    ids, draws, statuses, generations = ([*column] for column in zip(*rows, strict=True)) if rows else ([],) * 4
    return Records(Ids.of(ids), np.array(draws, dtype=np.int64), statuses, np.array(generations, dtype=np.int64))


def planned(
    cells: Cells, recorded: Iterable[Row] = (), blocked: Mapping[str, str] | None = None, *, retry: bool = False
) -> Plan:
    """The plan of these cells against these records."""
    return plan(cells, known(cells, [records(list(recorded))]), blocked or {}, retry_errors=retry)


def blocks(entries: Plan, block_episodes: int) -> dict[str, list[Block]]:
    """Model → its blocks, as workers would take them."""
    return {
        model: [block.made() for block in queue.by_episodes(block_episodes)] for model, queue in queues(entries).items()
    }


def halves(block: Block) -> tuple[Block, Block]:
    """Two blocks, equal in trials, an episode torn where it stands in the middle."""
    asked = [(work, trial) for work in block.works for trial in work.trials]
    middle = len(asked) // 2

    def made(part: list[tuple[Work, Trial]]) -> Block:
        works = [replace(work, trials=tuple(t for w, t in part if w is work)) for work in block.works]
        return replace(block, works=tuple(work for work in works if work.trials))

    return made(asked[:middle]), made(asked[middle:])
