"""What the orchestration costs: a cell of the null engine through Ray and Parquet, and its share of a real run.

Ray runs one slot, so that the time between two committed blocks is that slot's. A null cell is all of it: dispatch,
splits, arms, checks, the row, the commit and the driver's part. In a real run the orchestration is what is left of the
slot's time, from the loaded model to the last commit, without what the worker spends on its blocks; the commits are
counted as orchestration, too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks import measure, product
from benchmarks.product import Heard
from benchmarks.throughput import EFFECTS
from workers import parquet

GOAL_MS, GOAL_SHARE = 20.0, 0.02
ONE_SLOT = ("executor.slots=1",)
COMMITS = 5


@dataclass(frozen=True, slots=True)
class Blocks:
    """One slot's blocks, in order.

    Attributes:
        between_s: from the commit before, or from the loaded model, to this block's.
        worker_s: what the worker spent on it.
        commit_s: what a commit of such a block takes.
    """

    between_s: Sequence[float]
    worker_s: Sequence[float]
    num_trials: Sequence[int]
    commit_s: float

    @property
    def cell_ms(self) -> list[float]:
        """All that a cell took, block by block."""
        return [1000 * taken / num for taken, num in zip(self.between_s, self.num_trials, strict=True)]

    @property
    def dispatch_ms(self) -> list[float]:
        """What the slot waited for, block by block."""
        return [1000 * (taken - spent) for taken, spent in zip(self.between_s, self.worker_s, strict=True)]

    @property
    def share(self) -> float:
        """The part of the slot's time that is not the worker's, or goes into commits."""
        return 1 - (sum(self.worker_s) - len(self.worker_s) * self.commit_s) / sum(self.between_s)


def measured(overrides: Sequence[str]) -> Blocks:
    """Run it on Ray, on one slot."""
    heard = Heard()
    with tempfile.TemporaryDirectory(prefix="residue-overhead-") as folder:
        found = product.prepared([*overrides, *ONE_SLOT], Path(folder) / "results")
        product.carried_out(found, None, heard)
        parts = parquet.parts(found.store.trials(found.composed.study.name))
        commit_s = _commit_s(parts, Path(folder) / "again")
    at = [heard.ready_s, *(moment for moment, _ in heard.done)]
    receipts = [receipt for _, receipt in heard.done]
    return Blocks(
        between_s=[later - before for before, later in pairwise(at)],
        worker_s=[receipt.wall_s for receipt in receipts],
        num_trials=[receipt.num_trials for receipt in receipts],
        commit_s=commit_s,
    )


def _commit_s(parts: Sequence[Path], folder: Path) -> float:
    """The median time to make a table of a part's rows and to commit it."""
    tables = [table for table in map(parquet.read, parts) if table.num_rows]
    times = []
    for number, table in enumerate(tables[:COMMITS]):
        rows = table.to_pylist()
        start = time.perf_counter()
        parquet.commit(folder, str(number), parquet.rows_to_table(rows, table.schema))
        times.append(time.perf_counter() - start)
    return median(times)


def report(null: Blocks, real: Blocks, model: str) -> Iterator[str]:
    """The table, the goals, and the machine."""
    yield from measure.table(
        ("", "null engine", model),
        [
            ("trials, blocks", *(f"{sum(one.num_trials)}, {len(one.num_trials)}" for one in (null, real))),
            ("ms a cell, all in all", *(measure.spread(one.cell_ms) for one in (null, real))),
            ("ms a block: dispatch and waiting", *(measure.spread(one.dispatch_ms) for one in (null, real))),
            ("ms a block: commit", *(f"{1000 * one.commit_s:.3g}" for one in (null, real))),
            ("seconds from the loaded model to the end", *(f"{sum(one.between_s):.4g}" for one in (null, real))),
            ("orchestration's share of that", "", f"{100 * real.share:.2f} %"),
        ],
    )
    yield ""
    yield f"Goals: at most {GOAL_MS:g} ms a null cell at the median, at most {100 * GOAL_SHARE:g} % of a real run."
    yield "Ray on this machine, one slot; Parquet with fsync; 5 effects × 4 policies × 18 episodes × 8 arms."
    yield measure.machine()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 3 where a goal is missed."""
    parser = measure.parser("overhead", __doc__)
    parser.add_argument("--model", default="smollm2-135m", help="of the real run (default: smollm2-135m)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of both runs, such as limit=96")

    def run() -> int:
        asked = parser.parse_args(arguments)
        null = measured([*EFFECTS, "model=scripted", *asked.overrides])
        real = measured([*EFFECTS, f"model={asked.model}", *asked.overrides])
        print("\n".join(report(null, real, asked.model)))
        is_fine = median(null.cell_ms) <= GOAL_MS and real.share <= GOAL_SHARE
        return measure.FINE if is_fine else measure.SHORT

    return measure.told(run)


if __name__ == "__main__":
    sys.exit(main())
