"""A block in waves: what its episodes share is prefilled, arms hand in their states, replies are read, some again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workers import record
from workers.cell import CellRunner
from workers.decision import Desk
from workers.errors import IsolationError, OutOfMemory
from workers.sentinel import Sentinel
from workers.wave import Laid, laid, waves

if TYPE_CHECKING:
    from workers.block import Row, Work
    from workers.engine import Engine, Shelf
    from workers.studies import Study

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Computed:
    """A block's rows, work by work and trial by trial, and why the model must not go on; empty where it may."""

    rows: list[list[Row]]
    stop: str = ""


@dataclass
class BlockRunner:
    """Runs blocks on one loaded model.

    Args:
        isolation: `class`: states shared inside a class, replies decoded in batches; `strict`: every trial alone.
        kv_budget_mb: keys and values that may be on a shelf at once, MiB.
        decode_once: decode equal states once.
    """

    engine: Engine
    study: Study
    isolation: str
    kv_budget_mb: int = 1024
    decode_once: bool = True
    sentinel: Sentinel = field(init=False)
    _kept: Shelf | None = None

    def __post_init__(self) -> None:
        """Set the watch for all blocks to come."""
        self.sentinel = Sentinel(self.engine, self.study)

    def run(self, works: Sequence[Work], *, is_early: bool = False) -> Computed:
        """The rows of whole episodes. A failed trial is a row, not an exception.

        Where sharing or batching is found to give something else than the arm alone, no row of the block is believed.

        Args:
            is_early: compute every trial alone, as `Block` says.

        Raises:
            OutOfMemory: says nothing about the trials; they may succeed elsewhere.
        """
        rows: list[list[Row]] = [[] for _ in works]
        episodes = []
        for at, work in enumerate(works):
            found = laid(self.engine, at, work)
            if isinstance(found, Laid):
                episodes.append(found)
                rows[at] = [record.of_split(found.parts) for _ in work.trials]
            else:
                rows[at] = [record.refused(found) for _ in work.trials]
        try:
            for wave in waves(episodes, self._max_tokens):
                for episode, computed in self._wave(wave, is_early=is_early):
                    rows[episode.at] = computed
        except IsolationError as broken:
            found_wrong = {broken.check: broken.message}
            for episode in episodes:
                rows[episode.at] = [record.distrusted(row, found_wrong) for row in rows[episode.at]]
            return Computed(rows, str(broken))
        except OutOfMemory:
            # Whatever is tried next shall find room.
            self._kept = None
            raise
        return Computed(rows)

    @property
    def _max_tokens(self) -> float:
        size = self.engine.token_bytes
        return self._room / size if size else float("inf")

    @property
    def _room(self) -> float:
        """Bytes of the shelf that is kept, and of what a wave may add to it: half of the budget each."""
        return self.kv_budget_mb * _MIB / 2

    def _wave(self, wave: Sequence[Laid], *, is_early: bool) -> Iterator[tuple[Laid, list[Row]]]:
        """An episode and its rows.

        Raises:
            IsolationError: something shared or batched is not what it is alone (`batch_differs`, `shelf_differs`).
        """
        is_strict = self.isolation == "strict"
        # A model whose passes cannot be batched computes one state at a time anyway.
        is_early = is_early and not is_strict and self.engine.shelf() is not None
        shelf = None if is_strict or is_early else self._shelf(wave)
        decode_once = self.decode_once and not is_strict and not is_early
        # A model whose passes cannot be batched has no shelf, and its replies come one by one and with their times.
        desk = Desk(self.engine, shelf is not None, decode_once, is_timed=not is_early)
        cells = CellRunner(self.engine, self.study, self.isolation, desk, shelf)
        pending = [(episode, list(cells.run(episode))) for episode in wave]
        desk.drain()
        found = [
            (episode, [record.of_split(episode.parts) | one.finished() for one in trials])
            for episode, trials in pending
        ]
        yield from found
        if alarm := self.sentinel.alarm(found, is_shared=shelf is not None):
            raise IsolationError("batch_differs", alarm)

    def _shelf(self, wave: Sequence[Laid]) -> Shelf | None:
        """The last wave's shelf with what this one lacks, since one block often goes on where another ended."""
        shelf, self._kept = self._kept or self.engine.shelf(), None
        if shelf is not None:
            shelf.fill(pair for episode in wave for pair in episode.wanted())
            self._kept = shelf if shelf.num_bytes <= self._room else None
        return shelf
