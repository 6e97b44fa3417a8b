"""One episode through its arms: prepare, check, and hand in the state for its reply."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from workers import arms, faults, isolation, record, surfaces
from workers.bench import Bench
from workers.decision import Decision, wanted
from workers.errors import IsolationError, Unsupported, raise_if_full

if TYPE_CHECKING:
    from workers.arms import Arm
    from workers.block import Row, Trial
    from workers.decision import Admission, Desk
    from workers.engine import Engine, Handle, Shelf
    from workers.split import Split
    from workers.studies import Study
    from workers.wave import Laid


@dataclass(frozen=True, slots=True)
class Pending:
    """A trial's row as far as it is known, and the decision that it waits for, if it waits."""

    row: Row
    decision: Decision | None = None

    def finished(self) -> Row:
        """The whole row, once the pool is drained. A failed trial is a row, not an exception.

        Raises:
            OutOfMemory: says nothing about the trial; it may succeed elsewhere.
        """
        if self.decision is None:
            return self.row
        try:
            return self.decision.finished(self.row)
        except Exception as bug:
            raise_if_full(bug)
            return record.failed("error", bug)


@dataclass(frozen=True)
class CellRunner:
    """Runs the trials of one episode at a time on one loaded model.

    Args:
        shelf: prefills that classes of arms may share; None where every pass is computed.
    """

    engine: Engine
    study: Study
    isolation: str
    desk: Desk
    shelf: Shelf | None = None

    def run(self, episode: Laid) -> Iterator[Pending]:
        """One row a trial, in the trials' order.

        Raises:
            OutOfMemory: says nothing about the trial; it may succeed elsewhere.
        """
        try:
            bench = self._bench(episode)
        except Exception as fault:
            raise_if_full(fault)
            yield from [Pending(record.refused(fault))] * len(episode.work.trials)
            return
        for arm, trials in self._treated(episode):
            bench.begin(arm)
            found = self._guarded(bench, arm, trials)
            yield from found
            # After an error nobody knows what the arm left behind.
            if self.isolation == "strict" or not all(one.row.get("parent_intact") is True for one in found):
                bench = self._bench(episode)

    def _bench(self, episode: Laid) -> Bench:
        work = episode.work
        return Bench(self.engine, episode.parts, surfaces.get(work.episode.surface), work.episode, self.shelf)

    def _treated(self, episode: Laid) -> Iterator[tuple[Arm, tuple[Trial, ...]]]:
        """An arm and those trials that decide on one state of it: its draws, and alone each one under `strict`."""
        for name, group in groupby(episode.work.trials, key=attrgetter("arm")):
            trials = tuple(group)
            for together in [(trial,) for trial in trials] if self.isolation == "strict" else [trials]:
                yield arms.get(name), together

    def _guarded(self, bench: Bench, arm: Arm, trials: tuple[Trial, ...]) -> list[Pending]:
        try:
            return self._run_arm(bench, arm, trials)
        except Unsupported as lack:
            row = record.failed("unsupported", lack) | {"layer1": "unsupported", "parent_intact": bench.is_intact()}
        except IsolationError as broken:
            row = record.invalid({broken.check: broken.message, **dict(isolation.of_parents(bench))})
        except Exception as bug:
            raise_if_full(bug)
            row = record.failed("error", bug)
        return [Pending(row)] * len(trials)

    def _run_arm(self, bench: Bench, arm: Arm, trials: tuple[Trial, ...]) -> list[Pending]:
        handle = arm.prepare(bench)
        faults.point("arm")
        held = layer1(bench, arm, handle) | {"overwritten_tokens": _overwritten(bench.split, handle)}
        failed = dict(isolation.of_state(bench, arm, handle))
        bench.take(handle)
        if failed:
            row = record.invalid(failed | dict(isolation.of_parents(bench)))
            return [Pending(row | {"cache_length": held.get("cache_length")})] * len(trials)
        admissions, failed = self._admitted(bench, arm, handle, trials)
        failed |= dict(isolation.of_parents(bench))
        row = record.invalid(failed) if failed else record.DONE | held | asdict(bench.cost)
        if not admissions:
            return [Pending(row)] * len(trials)
        assert bench.episode is not None
        decide = (bench.episode, bench.split, self.study.judge)
        return [Pending(row, Decision(arm, *decide, admission)) for admission in admissions]

    def _admitted(
        self, bench: Bench, arm: Arm, handle: Handle, trials: tuple[Trial, ...]
    ) -> tuple[list[Admission], dict[str, str]]:
        """What is read from the state once it holds the delta, taken in before the surface goes on; broken checks."""
        assert bench.episode is not None
        texts, asks = self.study.judge.texts(bench.episode), [wanted(trial, bench.split) for trial in trials]
        start = time.perf_counter()
        failed: dict[str, str] = {}

        def read(state: Handle) -> list[Admission]:
            feed_ms = 1000 * (time.perf_counter() - start)
            failed.update(isolation.of_delta(bench.split, arm, state))
            return [] if failed else self.desk.admit(bench, state, asks, texts, feed_ms=feed_ms)

        return bench.decide(handle, read, is_one_pass=arm.is_one_pass), failed


def layer1(bench: Bench, arm: Arm, handle: Handle) -> Row:
    """Attended-state integrity, measured before the delta is fed (DESIGN §4.5)."""
    tolerance = bench.engine.facts.layer1_tolerance
    if arm.layer1 != "measured":
        return {"layer1": arm.layer1, "layer1_tolerance": tolerance}
    distance = bench.engine.distance(handle, bench.reference)
    return {
        "layer1": "intact" if distance is not None and distance <= tolerance else "violated",
        "layer1_max_diff": distance,
        "layer1_tolerance": tolerance,
        "cache_length": len(handle.ledger),
    }


def _overwritten(parts: Split, handle: Handle) -> int | None:
    held = handle.ledger
    if len(held) != len(parts.branched_ids):
        return None
    return sum(ours != theirs for ours, theirs in zip(held, parts.branched_ids, strict=True))
