"""The cells of a grid: columns, and one cell of them where it is looked at alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, overload

import numpy as np

from orchestrator.ids import Bools, Ids, Ints
from orchestrator.rows import Rows, Treatment
from workers.episode import Episode
from workers.identity import IDENTITY_VERSION, Identity


@dataclass(frozen=True, slots=True)
class Cell:
    """Episode × arm: the grid's unit.

    Attributes:
        parts: names of the parts that ask for it; none where the grid has none.
        make: writes its episode.
    """

    model: str
    episode_id: str
    axes: dict[str, Any]
    arm: str
    temperature: float
    num_draws: int
    identity: Identity
    cell_id: str
    parts: tuple[str, ...]
    is_selected: bool
    make: Callable[[], Episode] = field(repr=False, compare=False)

    @property
    def episode(self) -> Episode:
        """Its episode, written when it is asked for."""
        return self.make()


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a grid, selected or not; all arms of an episode stand together.

    Attributes:
        study: name and version, `rollback/2`.
        libraries: as they enter an identity.
    """

    study: str
    libraries: str
    rows: Rows
    ids: Ids
    is_selected: Bools

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Cell]:
        return (self[at] for at in range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Cell: ...
    @overload
    def __getitem__(self, at: slice) -> Cells: ...
    def __getitem__(self, at: int | slice) -> Cell | Cells:
        """One cell, or the columns of some of them."""
        places = np.arange(len(self))[at]
        if isinstance(places, np.ndarray):
            return Cells(
                self.study, self.libraries, self.rows.take(places), self.ids.take(places), self.is_selected[places]
            )
        return self._cell(int(places))

    @property
    def model(self) -> Ints:
        """Of each cell its model, as a place in `rows.episodes.models`."""
        return self.rows.episodes.model[self.rows.episode]

    def arm(self, at: int) -> str:
        """The arm of this cell."""
        treatment: Treatment = self.rows.treatments[self.rows.treatment[at]]
        return treatment.arm

    def identity(self, at: int) -> Identity:
        """What the id of this cell is the hash of."""
        episodes, episode = self.rows.episodes, int(self.rows.episode[at])
        treatment = self.rows.treatments[self.rows.treatment[at]]
        return Identity(
            version=IDENTITY_VERSION,
            study=self.study,
            model=episodes.weights[episodes.model[episode]],
            episode=episodes.contents[episode],
            arm=treatment.stamp,
            decode=treatment.decode,
            libraries=self.libraries,
        )

    def _cell(self, at: int) -> Cell:
        rows, episodes, episode = self.rows, self.rows.episodes, int(self.rows.episode[at])
        treatment = rows.treatments[rows.treatment[at]]
        return Cell(
            model=episodes.models[episodes.model[episode]],
            episode_id=episodes.ids[episode],
            axes=episodes.axes(episode),
            arm=treatment.arm,
            temperature=treatment.temperature,
            num_draws=int(rows.num_draws[at]),
            identity=self.identity(at),
            cell_id=self.ids[at],
            parts=rows.unions[rows.union[at]],
            is_selected=bool(self.is_selected[at]),
            make=lambda: episodes.made(episode),
        )


def identified(rows: Rows, study: str, libraries: str) -> Cells:
    """Rows with their ids, all selected: `Identity.cell_id` of each, without an object a cell."""
    episodes = rows.episodes
    tails = [f"\x1f{t.stamp}\x1f{t.decode}\x1f{libraries}".encode("utf-8", "surrogatepass") for t in rows.treatments]
    ids = bytearray()
    for episode, where in rows.runs():
        weights, content = episodes.weights[episodes.model[episode]], episodes.contents[episode]
        head = "\x1f".join((IDENTITY_VERSION, study, weights, content)).encode("utf-8", "surrogatepass")
        for treatment in rows.treatment[where].tolist():
            ids += blake2b(head + tails[treatment], digest_size=16).digest()
    return Cells(study, libraries, rows, Ids(bytes(ids)), np.ones(len(rows), dtype=np.bool_))
