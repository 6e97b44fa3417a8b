"""A grid in columns: episodes without their texts, treatments, and rows that pair them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from orchestrator.ids import Bools, Ids, Ints
from workers.episode import Episode, Message
from workers.errors import ConfigError
from workers.identity import digest


class Treatment(NamedTuple):
    """What is done with an episode: an arm, and how its reply is decoded."""

    arm: str
    stamp: str
    """The arm with its version, `stale/1`."""
    decode: str
    temperature: float


class Read(NamedTuple):
    """What is kept of the episodes of one writing: the digest of each, and where its axes stand."""

    writing: Sequence[Episode]
    contents: list[str]
    axes: range


@dataclass(slots=True)
class Shelf:
    """Every episode of a grid once, by its place in a study's writing: texts are written anew when they are wanted.

    Attributes:
        models, weights: their names, and the digests of their identities.
        read: each writing once, however many models it is for.
        levels: axis → its levels, numbered; `codes` says of each episode that was read which.
        turns: digest of some turns → their number; `alike` has those of what each episode commits, and of it with the
            branch.
        columns: of each episode the places of its model, of its writing in `read`, and of itself in that writing.
    """

    models: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    read: list[Read] = field(default_factory=list)
    levels: dict[str, dict[Any, int]] = field(default_factory=dict)
    codes: dict[str, list[int]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    alike: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    columns: tuple[list[int], list[int], list[int]] = field(default_factory=lambda: ([], [], []))
    known: dict[bytes, int] = field(default_factory=dict)
    """Episode id → its place, in the order of places."""

    def add(self, model: str, weights: str, writing: Sequence[Episode]) -> Ints:
        """Every episode of that writing for a model; where they stand."""
        if model not in self.models:
            self.models.append(model)
            self.weights.append(weights)
        at_model, at_read = self.models.index(model), self._read(writing)
        found = []
        for place, content in enumerate(self.read[at_read].contents):
            name = bytes.fromhex(digest(f"{weights}\x1f{content}"))
            at = self.known.setdefault(name, len(self.known))
            if at == len(self.columns[0]):
                for column, value in zip(self.columns, (at_model, at_read, place), strict=True):
                    column.append(value)
            found.append(at)
        return np.array(found, dtype=np.int64)

    def _read(self, writing: Sequence[Episode]) -> int:
        """Look at each episode once, for its digest; those of an equal writing are equal and were looked at."""
        for at, read in enumerate(self.read):
            if read.writing == writing:
                return at
        contents, start = [], sum(len(read.contents) for read in self.read)
        for episode in writing:
            contents.append(episode.digest)
            for axis, level in episode.axes.items():
                known = self.levels.setdefault(axis, {})
                self.codes.setdefault(axis, []).append(known.setdefault(level, len(known)))
            self.alike[0].append(self._numbered(episode.committed))
            self.alike[1].append(self._numbered((*episode.committed, *episode.branch)))
        self.read.append(Read(writing, contents, range(start, start + len(contents))))
        return len(self.read) - 1

    def _numbered(self, turns: Sequence[Message]) -> int:
        said = digest("\x1f".join(word for turn in turns for word in (turn.role, turn.text)))
        return self.turns.setdefault(said, len(self.turns))

    def closed(self) -> Episodes:
        """As columns, when everything is added."""
        model, writing, place = (np.array(column, dtype=np.int64) for column in self.columns)
        at = np.array([read.axes.start for read in self.read], dtype=np.int64)[writing] + place
        committed, branched = (np.array(column, dtype=np.int64)[at] for column in self.alike)
        contents = Ids.of(content for read in self.read for content in read.contents)
        return Episodes(
            models=tuple(self.models),
            weights=tuple(self.weights),
            writings=tuple(read.writing for read in self.read),
            levels={axis: list(levels) for axis, levels in self.levels.items()},
            codes={axis: np.array(codes, dtype=np.int64)[at] for axis, codes in self.codes.items()},
            model=model,
            writing=writing,
            place=place,
            rank=np.argsort(np.lexsort((branched, committed)), kind="stable"),
            contents=contents.take(at),
            ids=Ids(b"".join(self.known)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """The columns of a `Shelf`.

    Attributes:
        model, writing, place: of each episode its model, its writing, and its place in that.
        codes: axis → of each episode which of the levels.
        rank: of each episode its place where those that begin with the same turns stand together.
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
    rank: Ints
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
