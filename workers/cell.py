"""One episode through its arms: prepare, check, decide, record."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from workers import arms, isolation
from workers.bench import Bench, Cost
from workers.errors import IsolationError, OutOfMemory, TemplateError, Unsupported
from workers.split import Split, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.block import Row, Trial, Work
    from workers.engine import Decoded, Engine, Handle
    from workers.studies import Study


@dataclass(frozen=True)
class CellRunner:
    """Runs the trials of one episode at a time on one loaded model."""

    engine: Engine
    study: Study
    max_new_tokens: int
    isolation: str

    def run(self, work: Work) -> Iterator[Row]:
        """One row a trial, in the trials' order. A failed trial is a row, not an exception.

        Raises:
            OutOfMemory: says nothing about the trial; it may succeed elsewhere.
        """
        try:
            parts = split(self.engine, work.episode)
            self.engine.check_span(len(parts.committed_ids), self._longest(parts))
        except (IsolationError, TemplateError) as refusal:
            check = refusal.check if isinstance(refusal, IsolationError) else "template_refused"
            for _ in work.trials:
                yield _failed("invalid", refusal, check)
            return
        except OutOfMemory:
            raise
        except Exception as bug:
            for _ in work.trials:
                yield _failed("error", bug)
            return
        bench = Bench(self.engine, parts)
        for trial in work.trials:
            bench.cost = Cost()
            row = self._guarded(bench, trial, work)
            yield _split_columns(parts) | row
            # After an error nobody knows what the arm left behind.
            if self.isolation == "strict" or row.get("parent_intact") is not True:
                bench = Bench(self.engine, parts)

    def _longest(self, parts: Split) -> int:
        """Tokens of the longest context that any arm may reach, with a reply that uses its whole budget."""
        return len(parts.branched_ids) + len(parts.delta_ids) + self.max_new_tokens

    def _guarded(self, bench: Bench, trial: Trial, work: Work) -> Row:
        try:
            return self._run_trial(bench, trial, work)
        except Unsupported as lack:
            return _failed("unsupported", lack) | {"layer1": "unsupported", "parent_intact": bench.is_intact()}
        except IsolationError as broken:
            return _invalid({broken.check: broken.message, **dict(isolation.of_parents(bench))})
        except OutOfMemory:
            raise
        except Exception as bug:
            return _failed("error", bug)

    def _run_trial(self, bench: Bench, trial: Trial, work: Work) -> Row:
        arm, parts = arms.get(trial.arm), bench.split
        handle = arm.prepare(bench)
        layer1 = self._layer1(bench, handle, arm)
        failed = dict(isolation.of_state(bench, arm, handle))
        bench.take(handle)
        if failed:
            held = {"cache_length": layer1.get("cache_length")}
            return _invalid(failed | dict(isolation.of_parents(bench))) | held
        start = time.perf_counter()
        if not arm.is_one_pass:
            self.engine.feed(handle, parts.delta_ids)
        failed = dict(isolation.of_delta(parts, arm, handle))
        measures = dict(self.study.judge.score(self.engine, handle, work.episode))
        decoded = self.engine.decode(handle, self.max_new_tokens)
        found = _reply_columns(decoded) | {"decode_ms": 1000 * (time.perf_counter() - start)}
        failed |= dict(isolation.of_parents(bench))
        measures |= self.study.judge.read(decoded, work.episode)
        if failed:
            return _invalid(failed) | found
        return _DONE | layer1 | asdict(bench.cost) | found | measures

    def _layer1(self, bench: Bench, handle: Handle, arm: arms.Arm) -> Row:
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
