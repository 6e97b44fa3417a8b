"""A grid in columns: episodes without their texts, treatments, and rows that pair them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from orchestrator.ids import Bools, Ids, Ints
from workers.episode import Episode
from workers.errors import ConfigError
from workers.identity import digest


class Treatment(NamedTuple):
    """What is done with an episode: an arm, and how its reply is decoded."""

    arm: str
    stamp: str
    """The arm with its version, `stale/1`."""
    decode: str
    temperature: float


@dataclass(slots=True)
class Shelf:
    """Every episode of a grid once, by its place in a study's writing: texts are written anew when they are wanted.

    Attributes:
        models: their names.
        weights: the digest of each model's identity.
        writings: the episodes of each part and model, which may be made whenever they are looked at.
        levels: axis → its levels; `codes` says of each episode which.
        model, writing: of each episode, as a place in those lists; `place` is its own in the writing.
    """

    models: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    writings: list[Sequence[Episode]] = field(default_factory=list)
    levels: dict[str, dict[Any, int]] = field(default_factory=dict)
    codes: dict[str, list[int]] = field(default_factory=dict)
    model: list[int] = field(default_factory=list)
    writing: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    contents: bytearray = field(default_factory=bytearray)
    known: dict[bytes, int] = field(default_factory=dict)
    """Episode id → its place, in the order of places."""

    def add(self, model: str, weights: str, writing: Sequence[Episode]) -> Ints:
        """Look at each episode of a model once, for its id; where they stand."""
        if model not in self.models:
            self.models.append(model)
            self.weights.append(weights)
        self.writings.append(writing)
        at_model, at_writing = self.models.index(model), len(self.writings) - 1
        found = []
        for place, episode in enumerate(writing):
            content = episode.digest
            name = bytes.fromhex(digest(f"{weights}\x1f{content}"))
            at = self.known.setdefault(name, len(self.model))
            if at == len(self.model):
                self.model.append(at_model)
                self.writing.append(at_writing)
                self.place.append(place)
                self.contents += bytes.fromhex(content)
                self._note(episode.axes)
            found.append(at)
        return np.array(found, dtype=np.int64)

    def _note(self, axes: Mapping[str, Any]) -> None:
        for axis, level in axes.items():
            known = self.levels.setdefault(axis, {})
            self.codes.setdefault(axis, []).append(known.setdefault(level, len(known)))

    def closed(self) -> Episodes:
        """As columns, when everything is added."""
        return Episodes(
            models=tuple(self.models),
            weights=tuple(self.weights),
            writings=tuple(self.writings),
            levels={axis: list(levels) for axis, levels in self.levels.items()},
            codes={axis: np.array(codes, dtype=np.int64) for axis, codes in self.codes.items()},
            model=np.array(self.model, dtype=np.int64),
            writing=np.array(self.writing, dtype=np.int64),
            place=np.array(self.place, dtype=np.int64),
            contents=Ids(bytes(self.contents)),
            ids=Ids(b"".join(self.known)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """The columns of a `Shelf`.

    Attributes:
        contents: the digest of each episode's text.
        ids: the id of each episode, its model's included.
    """

    models: tuple[str, ...]
    weights: tuple[str, ...]
    writings: tuple[Sequence[Episode], ...]
    levels: dict[str, list[Any]]
    codes: dict[str, Ints]
    model: Ints
    writing: Ints
    place: Ints
    contents: Ids
    ids: Ids

    def axes(self, at: int) -> dict[str, Any]:
        """Axis → level, in the study's order."""
        return {axis: self.levels[axis][codes[at]] for axis, codes in self.codes.items()}

    def made(self, at: int) -> Episode:
        """The episode with its texts.

        Raises:
            ConfigError: it is another one than when the grid was expanded.
        """
        writing: Sequence[Episode] = self.writings[self.writing[at]]
        episode = writing[int(self.place[at])]
        if episode.digest != self.contents[at]:
            raise ConfigError("the texts that episodes are made of have changed meanwhile: run the same command again")
        return episode


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
