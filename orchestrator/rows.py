"""Episode × treatment, in columns: a row a cell. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from orchestrator.catalogue import Episodes
from orchestrator.ids import Bools, Ints


class Treatment(NamedTuple):
    """What is done with an episode: an arm, and how its reply is decoded."""

    arm: str
    stamp: str
    """The arm with its version, `stale/1`."""
    decode: str
    temperature: float


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Episode × treatment, a row a cell; all rows of an episode stand together.

    Attributes:
        unions: sets of parts; `union` says of each row which of them asks for it.
    """

    episodes: Episodes
    treatments: tuple[Treatment, ...]
    episode: Ints
    treatment: Ints
    num_draws: Ints
    unions: tuple[tuple[str, ...], ...]
    union: Ints

    def __len__(self) -> int:
        return len(self.episode)

    def take(self, kept: Bools | Ints | slice) -> Rows:
        """Some of the rows."""
        return replace(
            self,
            episode=self.episode[kept],
            treatment=self.treatment[kept],
            num_draws=self.num_draws[kept],
            union=self.union[kept],
        )

    def asked_by(self, part: str) -> Bools:
        """The rows that this part of the grid asks for."""
        return np.array([part in parts for parts in self.unions], dtype=np.bool_)[self.union]

    @property
    def axes(self) -> tuple[str, ...]:
        """What rows can be told apart by."""
        return ("model", "arm", *self.episodes.levels)

    def column(self, axis: str) -> tuple[Ints, Sequence[Any]]:
        """Of each row which level, and the levels."""
        if axis == "model":
            return self.episodes.model[self.episode], self.episodes.models
        if axis == "arm":
            arms = list(dict.fromkeys(treatment.arm for treatment in self.treatments))
            return np.array([arms.index(one.arm) for one in self.treatments], dtype=np.int64)[self.treatment], arms
        return self.episodes.codes[axis][self.episode], self.episodes.levels[axis]

    def levels(self) -> dict[str, list[Any]]:
        """Axis → those of its levels that some row has."""
        return {axis: self._present(axis) for axis in self.axes} if len(self) else {}

    def _present(self, axis: str) -> list[Any]:
        codes, levels = self.column(axis)
        return [levels[code] for code in np.flatnonzero(np.bincount(codes)).tolist()]

    def runs(self) -> Iterator[tuple[int, slice]]:
        """Each episode, and where its rows stand."""
        edges = np.flatnonzero(np.diff(self.episode, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(edges):
            yield int(self.episode[start]), slice(start, stop)


def joined(tables: Sequence[Rows]) -> Rows:
    """The union: each row once, with every part that asks for it and as often as any wants it drawn.

    Episodes come in the order in which they are first asked for, and the rows of one in theirs.
    """
    first = tables[0]
    episode, treatment, num_draws = (
        np.concatenate([getattr(table, name) for table in tables]) for name in ("episode", "treatment", "num_draws")
    )
    keys, at, place = np.unique(episode * len(first.treatments) + treatment, return_index=True, return_inverse=True)
    draws = np.zeros(len(keys), dtype=np.int64)
    np.maximum.at(draws, place, num_draws)
    unions, union = _unions(tables, place, len(keys))
    firsts = np.full(len(first.episodes.model), len(episode), dtype=np.int64)
    np.minimum.at(firsts, episode, np.arange(len(episode)))
    order = np.lexsort((at, firsts[episode[at]]))
    found = at[order]
    return Rows(first.episodes, first.treatments, episode[found], treatment[found], draws[order], unions, union[order])


def _unions(tables: Sequence[Rows], place: Ints, num_rows: int) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """The sets of parts, and which of them asks for each row."""
    known: dict[tuple[str, ...], int] = {(): 0}
    union = np.zeros(num_rows, dtype=np.int64)
    start = 0
    for table in tables:
        at = place[start : start + len(table)]
        start += len(table)
        for had in np.unique(union[at]).tolist():
            for code, parts in enumerate(table.unions):
                asked = at[(union[at] == had) & (table.union == code)]
                both = (*list(known)[had], *parts)
                union[asked] = -1 - known.setdefault(both, len(known))
        union = np.where(union < 0, -1 - union, union)
    return tuple(known), union
