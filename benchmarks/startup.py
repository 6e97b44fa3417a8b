"""From the command to its first committed row: in whole, and where the time goes.

The whole is timed from outside: the command as a user types it, on Ray, in a store of its own, until the first part
with a row is there. The breakdown comes from a second process, whose driver and worker note when each stage ends. Both
are second starts: whatever a first one prepares on this machine is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks import measure
from workers.errors import ConfigError

GOAL_S = 15.0
PATIENCE_S = 300.0
STEP_S = 0.02
NOTES = "RESIDUE_BENCHMARK_NOTES"
"""Environment: the file into which driver and worker write when a stage ended."""

ROOT = Path(__file__).resolve().parents[1]


def measured(overrides: Sequence[str], num_rounds: int) -> tuple[list[float], list[dict[str, float]]]:
    """Seconds of the whole, a value a round, and stage → seconds of each noted round; in turn, after one to prepare."""
    whole, noted = [], []
    _first_row_s([*_COMMAND, *overrides])
    for _ in range(num_rounds):
        whole.append(_first_row_s([*_COMMAND, *overrides]))
        noted.append(_stages([sys.executable, "-m", "benchmarks.staged", *overrides]))
    return whole, noted


_COMMAND = [sys.executable, "-m", "orchestrator"]


def _first_row_s(command: Sequence[str], notes: Path | None = None) -> float:
    """Seconds from the start of that command to its first part with a row; the command is ended then."""
    with tempfile.TemporaryDirectory(prefix="residue-startup-") as folder, _running(command, folder, notes) as process:
        start = time.perf_counter()
        while not any(map(_has_rows, Path(folder).glob("results/trials/*/part-*.parquet"))):
            if process.poll() is not None:
                raise ConfigError(f"the command ended before a row was there: {_last_line(folder)}")
            if time.perf_counter() - start > PATIENCE_S:
                raise ConfigError(f"no row within {PATIENCE_S:g} s")
            time.sleep(STEP_S)
        return time.perf_counter() - start


def _has_rows(part: Path) -> bool:
    # An empty store holds one part without rows, so that its views have columns.
    return not part.name.startswith("part-empty")


@contextlib.contextmanager
def _running(command: Sequence[str], folder: str, notes: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    store = f"store.root={folder}/results"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WANDB_MODE": "offline"}
    if notes:
        environment[NOTES] = str(notes)
    with (Path(folder) / "err").open("wb") as errors:
        process = subprocess.Popen(
            [*command, store], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            yield process
        finally:
            # A second SIGINT ends it at once, Ray with it; nothing of the run is wanted any more.
            for _ in range(2):
                process.send_signal(2)
                time.sleep(0.3)
            process.wait(timeout=60)


def _last_line(folder: str) -> str:
    lines = (Path(folder) / "err").read_text().strip().splitlines()
    return lines[-1] if lines else "without a word"


def _stages(command: Sequence[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="residue-startup-") as folder:
        notes = Path(folder) / "notes"
        start = time.time()
        _first_row_s(command, notes)
        return lengths(start, [json.loads(line) for line in notes.read_text().splitlines()])


def lengths(start: float, ends: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Stage → seconds, from the moments when each of them ended, in order."""
    found: dict[str, float] = {}
    for name, end in sorted(ends, key=lambda entry: entry[1]):
        found.setdefault(name, end - start)
        start = end
    return found


def report(whole: Sequence[float], noted: Sequence[dict[str, float]]) -> Iterator[str]:
    """The table, the whole, and the machine."""
    names = list(dict.fromkeys(name for stages in noted for name in stages))
    rows = [(name, measure.spread([stages[name] for stages in noted if name in stages])) for name in names]
    yield from measure.table(("stage", "seconds"), [*rows, ("**whole, timed from outside**", measure.spread(whole))])
    yield ""
    yield f"Goal: at most {GOAL_S:g} s. {len(whole)} rounds of each, in turn, after one that is not counted."
    yield measure.machine()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 3 where the goal is missed."""
    parser = measure.parser("startup", __doc__)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the command, such as model=scripted")
    parser.add_argument("--rounds", type=measure.at_least(1), default=3, help="how often (default: 3)")

    def run() -> int:
        asked = parser.parse_args(arguments)
        whole, noted = measured(asked.overrides, asked.rounds)
        print("\n".join(report(whole, noted)))
        return measure.FINE if median(whole) <= GOAL_S else measure.SHORT

    return measure.told(run)


if __name__ == "__main__":
    sys.exit(main())
