"""The episodes of a grid, in columns and without their texts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from orchestrator.ids import Ids, Ints
from workers.episode import Episode, Message
from workers.errors import ConfigError
from workers.identity import digest


class Read(NamedTuple):
    """What is kept of the episodes of one writing: the digest of each, and where its axes stand."""

    writing: Sequence[Episode]
    contents: list[str]
    axes: range


@dataclass(slots=True)
class Catalogue:
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
    """The columns of a `Catalogue`.

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
