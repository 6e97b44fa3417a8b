"""One episode through its arms: prepare, check, decide, record."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from workers import arms, isolation, surfaces
from workers.bench import Bench, Cost
from workers.errors import IsolationError, OutOfMemory, TemplateError, Unsupported
from workers.identity import digest
from workers.split import Split, split
from workers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.arms import Arm
    from workers.block import Row, Trial, Work
    from workers.engine import Decoded, Engine, Handle
    from workers.episode import Episode
    from workers.studies import Study


@dataclass(frozen=True)
class CellRunner:
    """Runs the trials of one episode at a time on one loaded model."""

    engine: Engine
    study: Study
    isolation: str

    def run(self, work: Work) -> Iterator[Row]:
        """One row a trial, in the trials' order. A failed trial is a row, not an exception.

        Raises:
            OutOfMemory: says nothing about the trial; it may succeed elsewhere.
        """
        try:
            parts = split(self.engine, work.episode)
            self.engine.check_span(len(parts.committed_ids), self._longest(parts, work))
            bench = self._bench(parts, work)
        except OutOfMemory:
            raise
        except Exception as fault:
            for _ in work.trials:
                yield _refused(fault)
            return
        for arm, trials in self._treated(work):
            bench.cost = Cost()
            rows = self._guarded(bench, arm, trials, work)
            for row in rows:
                yield _split_columns(parts) | row
            # After an error nobody knows what the arm left behind.
            if self.isolation == "strict" or not all(row.get("parent_intact") is True for row in rows):
                bench = self._bench(parts, work)

    def _bench(self, parts: Split, work: Work) -> Bench:
        return Bench(self.engine, parts, surfaces.get(work.episode.surface), work.episode)

    def _treated(self, work: Work) -> Iterator[tuple[Arm, tuple[Trial, ...]]]:
        """An arm and those trials that decide on one state of it: its draws, and alone each one under `strict`."""
        for name, group in groupby(work.trials, key=attrgetter("arm")):
            trials = tuple(group)
            for together in [(trial,) for trial in trials] if self.isolation == "strict" else [trials]:
                yield arms.get(name), together

    def _longest(self, parts: Split, work: Work) -> int:
        """Tokens of the longest context that any arm may reach, with a reply that uses its whole budget."""
        budget = max(trial.decode.max_new_tokens for trial in work.trials)
        return len(parts.branched_ids) + len(parts.delta_ids) + budget

    def _guarded(self, bench: Bench, arm: Arm, trials: tuple[Trial, ...], work: Work) -> list[Row]:
        try:
            return self._run_arm(bench, arm, trials, work)
        except OutOfMemory:
            raise
        except Unsupported as lack:
            row = _failed("unsupported", lack) | {"layer1": "unsupported", "parent_intact": bench.is_intact()}
        except IsolationError as broken:
            row = _invalid({broken.check: broken.message, **dict(isolation.of_parents(bench))})
        except Exception as bug:
            row = _failed("error", bug)
        return [row] * len(trials)

    def _run_arm(self, bench: Bench, arm: Arm, trials: tuple[Trial, ...], work: Work) -> list[Row]:
        handle = arm.prepare(bench)
        held = self._layer1(bench, handle, arm) | {"overwritten_tokens": _overwritten(bench.split, handle)}
        failed = dict(isolation.of_state(bench, arm, handle))
        bench.take(handle)
        if failed:
            row = _invalid(failed | dict(isolation.of_parents(bench))) | {"cache_length": held.get("cache_length")}
            return [row] * len(trials)
        start = time.perf_counter()

        def read(state: Handle) -> list[Row]:
            feed_ms = 1000 * (time.perf_counter() - start)
            measures = dict(self.study.judge.score(bench.engine, state, work.episode))
            decision = Decision(bench, arm, state, work.episode, measures, feed_ms)
            return [self._decide(decision, trial, is_last=trial is trials[-1]) for trial in trials]

        rows = bench.decide(handle, read, is_one_pass=arm.is_one_pass)
        return [row if row["status"] == "invalid" else _DONE | held | asdict(bench.cost) | row for row in rows]

    def _decide(self, decision: Decision, trial: Trial, *, is_last: bool) -> Row:
        bench, arm, episode, judge = decision.bench, decision.arm, decision.episode, self.study.judge
        engine, parts, start = bench.engine, bench.split, time.perf_counter()
        # The last draw may have the state itself; every other one leaves it as it is.
        state = decision.state if is_last else engine.fork(decision.state)
        failed = dict(isolation.of_delta(parts, arm, state))
        decoded = engine.decode(state, trial.decode.max_new_tokens, _stream(parts, trial))
        decode_ms = decision.feed_ms + 1000 * (time.perf_counter() - start)
        decoded = replace(decoded, opens_in_thinking=parts.delta_text.rstrip().endswith("<think>"))
        found = _reply_columns(decoded) | {"decode_ms": decode_ms}
        failed |= dict(isolation.of_parents(bench))
        if failed:
            return _invalid(failed) | found
        transcript = episode.transcript(with_branch=arm.layer1 == "violated")
        return {"status": "done"} | found | decision.measures | dict(judge.read(decoded, episode, transcript))

    def _layer1(self, bench: Bench, handle: Handle, arm: Arm) -> Row:
        """Attended-state integrity, measured before the delta is fed (DESIGN §4.5)."""
        tolerance = self.engine.facts.layer1_tolerance
        if arm.layer1 != "measured":
            return {"layer1": arm.layer1, "layer1_tolerance": tolerance}
        distance = self.engine.distance(handle, bench.reference)
        return {
            "layer1": "intact" if distance is not None and distance <= tolerance else "violated",
            "layer1_max_diff": distance,
            "layer1_tolerance": tolerance,
            "cache_length": len(handle.ledger),
        }


@dataclass(frozen=True)
class Decision:
    """A state that holds the delta, from which one reply a trial is read.

    Attributes:
        measures: what the study reads from the state before any reply.
        feed_ms: what it took to feed the delta.
    """

    bench: Bench
    arm: Arm
    state: Handle
    episode: Episode
    measures: Row
    feed_ms: float


def _stream(parts: Split, trial: Trial) -> Stream | None:
    """The trial's random numbers: the same for every arm, and on every surface, that decides on the same tokens."""
    decode = trial.decode
    if decode.is_greedy:
        return None
    question = digest(repr((parts.committed_ids, parts.branch_ids, parts.delta_ids)))
    return Stream(decode.temperature, decode.seed, question, trial.draw)


def _overwritten(parts: Split, handle: Handle) -> int | None:
    held = handle.ledger
    if len(held) != len(parts.branched_ids):
        return None
    return sum(ours != theirs for ours, theirs in zip(held, parts.branched_ids, strict=True))


def _refused(fault: Exception) -> Row:
    """A row of an episode none of whose arms can be tried."""
    if isinstance(fault, IsolationError):
        return _failed("invalid", fault, fault.check)
    if isinstance(fault, TemplateError):
        return _failed("invalid", fault, "template_refused")
    if isinstance(fault, Unsupported):
        return _failed("unsupported", fault) | {"layer1": "unsupported"}
    return _failed("error", fault)


_DONE: Row = {"status": "done", "failed_checks": "", "delta_identical": True, "parent_intact": True}


def _invalid(failed: dict[str, str]) -> Row:
    """A trial with broken checks: their names and reasons, and no verdict of any kind."""
    return {
        "status": "invalid",
        "failed_checks": ",".join(failed),
        "error": "; ".join(f"{check}: {reason}" for check, reason in failed.items()),
        "delta_identical": "delta_differs" not in failed,
        "parent_intact": "parent_changed" not in failed,
    }


def _reply_columns(decoded: Decoded) -> Row:
    return {
        "reply": decoded.text,
        "reply_ids": list(decoded.ids),
        "stop": decoded.stop,
        "top2_margin": decoded.top2_margin,
        "decode_tokens": len(decoded.ids),
    }


def _split_columns(parts: Split) -> Row:
    return {
        "committed_ids": list(parts.committed_ids),
        "branch_ids": list(parts.branch_ids),
        "delta_ids": list(parts.delta_ids),
        "carrier_absent": parts.carrier_absent,
        "delta_identical": parts.delta_identical,
        "carrier_tokens": parts.carrier_tokens,
    }


def _failed(status: str, error: Exception, check: str = "") -> Row:
    line = " ".join(str(error).split()) or type(error).__name__
    is_bug = status == "error"
    return {
        "status": status,
        "failed_checks": check,
        "error": f"{type(error).__name__}: {line}" if is_bug else line,
        "traceback": "".join(traceback.format_exception(error)) if is_bug else None,
    }
