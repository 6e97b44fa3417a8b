"""Trials repeated alone: whether sharing and batching gave what the arm gives by itself (DESIGN §4.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from workers import arms, surfaces
from workers.bench import Bench
from workers.cell import layer1
from workers.decision import wanted
from workers.engine.base import ALONE, Decoded
from workers.errors import raise_if_full

if TYPE_CHECKING:
    from workers.block import Row, Trial
    from workers.engine import Engine, Handle
    from workers.studies import Study
    from workers.wave import Laid

EVERY = 256
"""Trials of which one more is repeated, beside the first of each arm and batch shape; and then all rows are tried."""
_STRIDE = 37
"""Trials from one such to the next: a prime, so that it meets all arms and places."""
_SCORE_TOLERANCE = 100
"""× the Layer-1 tolerance, which is ten times the distance of two honest passes: a score sums over several steps."""

Kind = tuple[str, str]
"""Arm and batch shape."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A trial that was not computed by itself, and what its row says."""

    episode: Laid
    trial: Trial
    row: Row

    @property
    def kind(self) -> Kind:
        """What one repeated trial speaks for."""
        return self.trial.arm, self.row["batch"]

    @property
    def num_tokens(self) -> int:
        """What its episode takes to compute again."""
        return len(self.episode.parts.branched_ids)

    @property
    def name(self) -> str:
        """As the row is found: arm and cell."""
        return f"{self.trial.arm} {self.trial.cell_id[:12]}/{self.trial.draw}"


@dataclass
class Sentinel:
    """Watches one loaded model for as long as it lives.

    The first trial of each arm and batch shape is repeated, and one more of every `EVERY` trials, so that other arms
    and episodes come under it in time. As often, probes are decoded in every row of the batches in use: an error that
    began after the start in one row is met, even if no repeated trial was decoded there.
    """

    engine: Engine
    study: Study
    _seen: set[Kind] = field(default_factory=set)
    _num_watched: int = 0
    _num_more: int = 0

    def alarm(self, wave: Iterable[tuple[Laid, Sequence[Row]]], *, is_shared: bool) -> str:
        """What a repeated trial gave that its row does not say; empty where nothing was found.

        Args:
            is_shared: states came from a shelf, so that no row of the wave stands for itself.

        Raises:
            OutOfMemory: says nothing about the rows.
        """
        suspects = [
            Suspect(episode, trial, row)
            for episode, rows in wave
            for trial, row in zip(episode.work.trials, rows, strict=True)
            if _is_suspect(row, is_shared)
        ]
        if any(suspect.row["batch"] != ALONE for suspect in suspects) and (wrong := self._rechecked(len(suspects))):
            return f"a batch that was proven before computes wrongly now: {wrong}"
        for chosen in self._chosen(suspects):
            for suspect, difference in self._differences(chosen):
                if difference:
                    return f"{suspect.name}, computed again alone, differs: {difference}"
                self._seen.add(suspect.kind)
        return ""

    def _rechecked(self, num_new: int) -> str:
        """Probes in all rows of every batch, after the first trials and then as often as a trial is repeated."""
        is_due = self._num_watched == 0 or self._num_watched + num_new >= EVERY * (self._num_more + 1)
        return self.engine.pool(is_batched=True).recheck() if is_due else ""

    def _chosen(self, suspects: Sequence[Suspect]) -> Iterator[list[Suspect]]:
        """Suspects of one episode at a time, which may use one session: the fewest and shortest episodes that do."""
        unseen = {suspect.kind for suspect in suspects} - self._seen
        by_episode = [list(group) for _, group in groupby(suspects, key=lambda suspect: suspect.episode.at)]
        while unseen:
            new = [{one.kind: one for one in group if one.kind in unseen} for group in by_episode]
            best = max(new, key=lambda kinds: (len(kinds), -max((one.num_tokens for one in kinds.values()), default=0)))
            unseen -= best.keys()
            yield list(best.values())
        self._num_watched += len(suspects)
        # A reply that several rows took over counts for all of them.
        decoded = [suspect for suspect in suspects if suspect.row["decoded_with"] is None] or suspects
        while self._num_watched >= EVERY * (self._num_more + 1):
            self._num_more += 1
            yield [decoded[self._num_more * _STRIDE % len(decoded)]]

    def _differences(self, group: Sequence[Suspect]) -> Iterator[tuple[Suspect, str]]:
        episode = group[0].episode
        surface = surfaces.get(episode.work.episode.surface)
        bench = Bench(self.engine, episode.parts, surface, episode.work.episode)
        for suspect in group:
            try:
                yield suspect, self._difference(bench, suspect)
            except Exception as fault:
                raise_if_full(fault)
                yield suspect, f"{type(fault).__name__}: {fault}"

    def _difference(self, bench: Bench, suspect: Suspect) -> str:
        """The first thing in which the arm's own way differs from the row; empty where none does."""
        arm, row, episode = arms.get(suspect.trial.arm), suspect.row, suspect.episode.work.episode
        bench.begin(arm)
        handle = arm.prepare(bench)
        held = layer1(bench, arm, handle)
        for name in ("layer1", "cache_length"):
            if held.get(name) != row.get(name):
                return f"{name} {held.get(name)}, not {row.get(name)}"

        def read(state: Handle) -> str:
            scores = [bench.engine.score(state, text) for text in self.study.judge.texts(episode)]
            near = _SCORE_TOLERANCE * self.engine.facts.layer1_tolerance * max([1.0, *map(abs, scores)])
            for name, value in self.study.judge.scored(scores, episode).items():
                if not _is_near(value, row[name], near):
                    return f"{name} {value}, not {row[name]}"
            reply = Decoded(tuple(row["reply_ids"]), row["reply"], row["stop"], row["top2_margin"])
            is_same = bench.engine.agrees(state, wanted(suspect.trial, bench.split).ask, reply)
            return "" if is_same else f"another reply than {row['reply']!r}"

        return bench.decide(handle, read, is_one_pass=arm.is_one_pass)


def _is_suspect(row: Row, is_shared: bool) -> bool:
    """Whether an observation was not made from the arm's own passes and its own decode."""
    return row["status"] == "done" and (is_shared or row["batch"] != ALONE or row["decoded_with"] is not None)


def _is_near(value: Any, recorded: Any, near: float) -> bool:
    return bool(abs(value - recorded) <= near if isinstance(value, float) else value == recorded)
