"""What crosses from the driver to a worker and back: a block of trials there, a receipt of counts here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from workers.episode import Episode
from workers.identity import Identity, digest
from workers.spec import Decode, ModelSpec


@cache
def _decode(text: str) -> Decode:
    """Parsed once: a grid has few ways to decode and many trials."""
    return Decode.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial to record: a cell, a draw, and how often that trial was recorded before."""

    arm: str
    identity: Identity
    draw: int
    generation: int

    @property
    def cell_id(self) -> str:
        """Id of the trial's cell."""
        return self.identity.cell_id

    @property
    def decode(self) -> Decode:
        """How it is decoded, as its identity says."""
        return _decode(self.identity.decode)


@dataclass(frozen=True, slots=True)
class Work:
    """An episode and those of its trials that are still to record."""

    episode_id: str
    episode: Episode
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole episodes of one model: the unit that one worker takes and commits.

    Attributes:
        is_early: somebody waits for its rows: they are computed alone, which for few takes half as long as to share and
            to repeat.
        attempt: the so many-th time that its trials are tried.
    """

    model: str
    works: tuple[Work, ...]
    is_early: bool = False
    attempt: int = 1

    @property
    def name(self) -> str:
        """Identity of the block's contents; names its part, so committing twice is committing once."""
        trials = sorted((t.cell_id, t.draw, t.generation) for work in self.works for t in work.trials)
        return digest(repr(trials))

    @property
    def num_trials(self) -> int:
        """Trials to record."""
        return sum(len(work.trials) for work in self.works)


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to know once, at its start."""

    model: ModelSpec
    model_identity: str
    """What the model's digest is made of, JSON, for the rows."""
    study: str
    store: str
    run_id: str
    isolation: str
    """`class`: states shared inside a class; `strict`: every trial alone."""
    num_threads: int
    kv_budget_mb: int = 1024
    """Keys and values that prefills may keep at once, MiB."""
    decode_once: bool = True
    """Whether states of equal bytes that are asked the same are decoded once."""
    slots_per_node: int = 1
    """How many slots of the model a machine may hold at once."""
    size: int = 1
    """The slot, as a multiple of what the model's file asks for."""

    def sized(self, size: int) -> Job:
        """The same in a slot so many times as large."""
        if size == self.size:
            return self
        return replace(self, model=self.model.model_copy(update={"device": self.model.device.times(size)}), size=size)

    @property
    def weights(self) -> Literal["packed", "mapped"]:
        """What kernels read: a packed copy in a slot alone on its machine, else the pages that all slots share."""
        return "packed" if self.slots_per_node == 1 else "mapped"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is left of a block for the driver: counts, never rows. Under 1 KB.

    Attributes:
        is_first: false where another worker had already committed the same trials.
        statuses: status → trials.
        flips: arm → flips that the study counts among the block's rows; for the display, SQL has the last word.
            None where the block has no trial of the reference arm to judge by.
        reasons: status → one line of the first trial that has it, for those that are not done.
        stop: why no further block of the model may run; empty where they may.
    """

    block: str
    model: str
    num_trials: int
    is_first: bool
    statuses: Mapping[str, int]
    flips: Mapping[str, int] | None
    reasons: Mapping[str, str]
    wall_s: float
    stop: str = ""


Row = dict[str, Any]
"""One trial's record: column → value."""
