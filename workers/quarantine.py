"""A trial that cannot be run: its row says of what class its failures were, how many, and the last one's traceback."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from workers import rows
from workers.block import Block, Job, Receipt, Row

WORDS = {
    "lost": "worker lost {} times",
    "preempted": "machine lost {} times",
    "bug": "failed {} times",
    "memory": "out of memory {} times, one state at a time in the largest slot",
    "hung": "worker hung {} times",
}


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why a trial is given up.

    Attributes:
        failure: the class of its last failure, a key of `WORDS`.
        attempts: how often it was begun, in whatever block.
        message: what the last failure said, one line.
        traceback: the last failure's, where there is one.
    """

    failure: str
    attempts: int
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        """One line for the row."""
        return f"{WORDS[self.failure].format(self.attempts)}: {self.message}"


def commit(job: Job, block: Block, grounds: Grounds) -> Receipt:
    """Record every trial of the block as an error. Where a worker that was given up has committed it, that stands.

    Raises:
        StoreError: the records cannot be written.
    """
    row: Row = {
        "status": "error",
        "failed_checks": "",
        "error": str(grounds),
        "traceback": grounds.traceback or None,
        "failure": grounds.failure,
    }
    made = rows.of_block(job, block, [[row] * len(work.trials) for work in block.works])
    made = [one | {"attempts": grounds.attempts} for one in made]
    is_first = rows.commit(job, block, made)
    statuses = dict(Counter(one["status"] for one in made))
    return Receipt(block.name, block.model, len(made), is_first, statuses, None, {"error": str(grounds)[:300]}, 0.0)
