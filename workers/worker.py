"""Block → records: one loaded model, one block at a time, committed before it is answered for."""

from __future__ import annotations

import socket
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from workers import engine, parquet, studies
from workers.block import Block, Job, Receipt, Row, Work
from workers.runner import BlockRunner
from workers.schema import arrow_schema
from workers.store import Store

if TYPE_CHECKING:
    from workers.engine import Facts


class Worker:
    """Holds one model for as long as it lives.

    Raises:
        ModelError: at construction, when the model cannot be loaded.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.study = studies.get(job.study)
        self.store = Store(job.store)
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
        """
        start = time.perf_counter()
        rows, stop = self.rows(block)
        schema = arrow_schema(self.study.name, self.study.columns)
        committed_at = datetime.now(UTC)
        table = parquet.rows_to_table([row | {"committed_at": committed_at} for row in rows], schema)
        is_first = parquet.commit(self.store.trials(self.study.name), block.name, table)
        return Receipt(
            block=block.name,
            model=block.model,
            num_trials=len(rows),
            is_first=is_first,
            statuses=dict(Counter(row["status"] for row in rows)),
            flips=dict(self.study.judge.tally(rows)) if self._can_judge(rows) else None,
            reasons={row["status"]: row["error"][:300] for row in reversed(rows) if row["status"] != "done"},
            wall_s=time.perf_counter() - start,
            stop=stop[:300],
        )

    def rows(self, block: Block) -> tuple[list[Row], str]:
        """A block's rows but for when they were committed, and why the model must not go on; empty where it may."""
        computed = self.runner.run(block.works, is_early=block.is_early)
        pairs = zip(block.works, computed.rows, strict=True)
        return [row for work, found in pairs for row in self._rows(work, found)], computed.stop

    def _can_judge(self, rows: list[Row]) -> bool:
        return any(row["arm"] == self.study.reference and row["status"] == "done" for row in rows)

    def _rows(self, work: Work, found: list[Row]) -> list[Row]:
        shared = self._shared_columns() | {
            "episode_id": work.episode_id,
            "episode": work.episode.text,
            **work.episode.axes,
        }
        return [
            shared
            | {
                "cell_id": trial.cell_id,
                "draw": trial.draw,
                "arm": trial.arm,
                "identity": trial.identity.text,
                "generation": trial.generation,
                "temperature": trial.decode.temperature,
            }
            | row
            for trial, row in zip(work.trials, found, strict=True)
        ]

    def _shared_columns(self) -> Row:
        job, facts = self.job, self.engine.facts
        return {
            "study": job.study,
            "model": job.model.name,
            "model_identity": job.model_identity,
            "template_sha256": facts.template_sha256,
            "cache_family": facts.cache,
            "window_tokens": facts.window_tokens,
            "isolation": job.isolation,
            "kernels": facts.kernels,
            "versions": facts.versions,
            "device": facts.device,
            "host": socket.gethostname(),
            "run_id": job.run_id,
        }
