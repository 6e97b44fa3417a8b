"""Block → records: one loaded model, one block at a time, committed before it is answered for."""

from __future__ import annotations

import gc
import time
from collections import Counter
from typing import TYPE_CHECKING

from workers import engine, rows, studies
from workers.block import Block, Job, Receipt, Row
from workers.errors import OutOfMemory, raise_if_full
from workers.runner import BlockRunner, Computed

if TYPE_CHECKING:
    from workers.engine import Facts

RUNGS = ("", "fewer at a time", "one at a time")
"""What is tried where the device is too small: the pool has taken fewer rows after the first failure (DESIGN §4.7)."""


class Worker:
    """Holds one model for as long as it lives.

    Raises:
        ModelError: at construction, when the model cannot be loaded.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.study = studies.get(job.study)
        self.engine = engine.load(job.model, num_threads=job.num_threads, weights=job.weights)
        self._alone = ""
        if job.isolation == "class" and self.engine.shelf() is not None:
            self._alone = self.engine.pool(is_batched=True).prove()
        self.runner = BlockRunner(self.engine, self.study, job.isolation, job.kv_budget_mb, job.decode_once)

    @property
    def facts(self) -> Facts:
        """What was loaded."""
        return self.engine.facts

    @property
    def device(self) -> str:
        """What it computes on; and why it decodes one state at a time, where a batch was tried and refused."""
        return f"{self.facts.device}, replies one at a time: {self._alone}" if self._alone else self.facts.device

    def run(self, block: Block) -> Receipt:
        """Compute and commit a block.

        Raises:
            StoreError: the records cannot be written; none of the block's are.
            OutOfMemory: nor can they be computed, one state at a time.
        """
        start = time.perf_counter()
        found, stop = self.rows(block)
        is_first = rows.commit(self.job, block, found)
        return Receipt(
            block=block.name,
            model=block.model,
            num_trials=len(found),
            is_first=is_first,
            statuses=dict(Counter(row["status"] for row in found)),
            flips=dict(self.study.judge.tally(found)) if self._can_judge(found) else None,
            reasons={row["status"]: row["error"][:300] for row in reversed(found) if row["status"] != "done"},
            wall_s=time.perf_counter() - start,
            stop=stop[:300],
        )

    def rows(self, block: Block) -> tuple[list[Row], str]:
        """A block's rows but for when they were committed, and why the model must not go on; empty where it may.

        Raises:
            OutOfMemory: as for `run`.
        """
        rung, computed = self._climbed(block)
        if self.job.size > 1:
            rung = ", ".join(filter(None, [f"a slot of {self.job.size} times the size", rung]))
        found = [[row | {"rung": rung} for row in rows] for rows in computed.rows]
        return rows.of_block(self.job, block, found, self.facts), computed.stop

    def _climbed(self, block: Block) -> tuple[str, Computed]:
        """The block's rows from the first rung on which there was memory for them, and the rung."""
        for rung in RUNGS:
            try:
                return rung, self._computed(block, is_early=block.is_early or rung == RUNGS[-1])
            except OutOfMemory:
                if rung == RUNGS[-1]:
                    raise
            # What the failed try held is reachable through its traceback until here.
            gc.collect()
        raise AssertionError("the last rung returns or raises")

    def _computed(self, block: Block, *, is_early: bool) -> Computed:
        try:
            return self.runner.run(block.works, is_early=is_early)
        except Exception as error:
            raise_if_full(error)
            raise

    def _can_judge(self, rows: list[Row]) -> bool:
        return any(row["arm"] == self.study.reference and row["status"] == "done" for row in rows)
