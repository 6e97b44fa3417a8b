"""What each trial's row says beside what was computed: what was asked, by whom, where and how often."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from workers import parquet, studies
from workers.block import Block, Job, Row, Work
from workers.schema import arrow_schema
from workers.store import Store

if TYPE_CHECKING:
    from workers.engine import Facts


def of_block(job: Job, block: Block, found: Sequence[Sequence[Row]], facts: Facts | None = None) -> list[Row]:
    """Rows of a block, but for when they were committed.

    Args:
        found: what is known of each trial, work by work.
        facts: what had been loaded; None where nothing computed them.
    """
    shared = _of_job(job, block) | (_of_facts(facts) if facts else {})
    pairs = zip(block.works, found, strict=True)
    return [shared | row for work, rows in pairs for row in _of_work(work, rows)]


def commit(job: Job, block: Block, rows: Sequence[Row]) -> bool:
    """Write the block's rows as one part; false where somebody had committed the same trials.

    Raises:
        StoreError: the store cannot be written.
    """
    study, committed_at = studies.get(job.study), datetime.now(UTC)
    schema = arrow_schema(study.name, study.columns)
    table = parquet.rows_to_table([row | {"committed_at": committed_at} for row in rows], schema)
    return parquet.commit(Store(job.store).trials(study.name), block.name, table)


def _of_work(work: Work, rows: Sequence[Row]) -> Iterator[Row]:
    shared = {"episode_id": work.episode_id, "episode": work.episode.text, **work.episode.axes}
    for trial, row in zip(work.trials, rows, strict=True):
        asked = {
            "cell_id": trial.cell_id,
            "draw": trial.draw,
            "arm": trial.arm,
            "identity": trial.identity.text,
            "generation": trial.generation,
            "temperature": trial.decode.temperature,
        }
        yield shared | asked | row


def _of_job(job: Job, block: Block) -> Row:
    return {
        "study": job.study,
        "model": job.model.name,
        "model_identity": job.model_identity,
        "isolation": job.isolation,
        "host": socket.gethostname(),
        "run_id": job.run_id,
        "attempts": block.attempt,
    }


def _of_facts(facts: Facts) -> Row:
    return {
        "template_sha256": facts.template_sha256,
        "cache_family": facts.cache,
        "window_tokens": facts.window_tokens,
        "kernels": facts.kernels,
        "versions": facts.versions,
        "device": facts.device,
    }
