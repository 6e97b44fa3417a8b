"""Two slots of one thread against one slot of two: throughput, and how much memory is a slot's own.

Both run the same blocks on Ray. Blocks are given out once every slot has loaded its model, so that only work is timed.
Each worker tells, once it has loaded its model and again after its last block, how many of its pages are private and
how many it shares with other processes, as the kernel counts them; Linux only. What is private after loading is not the
weights'; what comes on top is the batch and the shelf.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import measure, product
from benchmarks.product import Heard, Slot
from orchestrator.executors.base import Event, Ready
from orchestrator.executors.ray import RayExecutor
from workers.block import Block, Job, Receipt
from workers.errors import ConfigError
from workers.worker import Worker

GOAL = 0.95
SIDES = {"2 slots × 1 thread": (2, 1), "1 slot × 2 threads": (1, 2)}
"""Side → slots, CPUs of each."""
GRID = ("+grid=effects", "exclude=[]", "model=smollm2-135m", "limit=960", "block_episodes=60")
"""240 episodes × 4 arms in blocks for both sides: what each slot does once must not be most of it."""
PAGES = Path("/proc/self/smaps_rollup")


class Weighed(Worker):
    """A worker that notes its memory beside the store."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._loaded = _pages()

    def run(self, block: Block) -> Receipt:
        """The block."""
        receipt = super().run(block)
        if PAGES.exists():
            note = Path(self.job.store).parent / f"memory-{os.getpid()}.json"
            note.write_text(json.dumps([*self._loaded, *_pages()]))
        return receipt


def _pages() -> tuple[float, ...]:
    return megabytes(PAGES.read_text()) if PAGES.exists() else ()


def megabytes(rollup: str) -> tuple[float, float]:
    """Private and shared MB of a process, from its `smaps_rollup`."""
    found = {"Private": 0, "Shared": 0}
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        kind, _, state = name.partition("_")
        if kind in found and state in ("Clean", "Dirty"):
            found[kind] += int(rest.split()[0])
    return found["Private"] / 1000, found["Shared"] / 1000


class Together(RayExecutor):
    """Reports its slots ready when all of them are."""

    def __init__(self, num_slots: int) -> None:
        super().__init__(slots=num_slots, worker=Weighed)
        self._num_awaited = num_slots
        self._held: list[Event] = []

    def wait(self, timeout_s: float) -> list[Event]:
        """Events; those of ready slots once there are enough of them."""
        events = super().wait(timeout_s)
        ready = [event for event in events if isinstance(event, Ready)]
        if not self._num_awaited:
            return events
        self._held += events
        self._num_awaited -= len(ready)
        if self._num_awaited > 0:
            return []
        held, self._held = self._held, []
        return held


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: trials a second, and MB of each slot: private and shared once it is loaded, and both at the end."""

    per_s: float
    memory: Sequence[Sequence[float]]


def measured(side: str, overrides: Sequence[str]) -> Measured:
    """One side, once."""
    num_slots, cpus = SIDES[side]
    heard = Heard()
    with tempfile.TemporaryDirectory(prefix="residue-slots-") as folder:
        found = product.prepared([*GRID, *overrides], Path(folder) / "results", Slot(cpus=cpus))
        product.carried_out(found, Together(num_slots), heard)
        memory = [tuple(json.loads(note.read_text())) for note in Path(folder).glob("memory-*.json")]
    if len(memory) not in (0, num_slots):
        raise ConfigError(f"{side}: {len(memory)} slots took part; two CPUs and a block for each slot are needed")
    trials = sum(receipt.num_trials for _, receipt in heard.done)
    return Measured(trials / (heard.done[-1][0] - heard.ready_s), memory)


def report(found: dict[str, list[Measured]]) -> Iterator[str]:
    """The table, the ratio, and the machine."""
    rows = []
    for side, rounds in found.items():
        memory = [measure.spread([slot[at] for one in rounds for slot in one.memory]) for at in (0, 1, 2)]
        rows.append((side, measure.spread([one.per_s for one in rounds]), *memory))
    header = ("", "trials a second", "private MB a slot, loaded", "shared MB, loaded", "private MB at the end")
    yield from measure.table(header, rows)
    yield ""
    yield f"Ratio of the medians: **{ratio(found):.2f}**; goal: at least {GOAL:g}."
    yield measure.machine()


def ratio(found: dict[str, list[Measured]]) -> float:
    """Throughput of two narrow slots by that of a wide one."""
    narrow, wide = (median(one.per_s for one in found[side]) for side in SIDES)
    return narrow / wide


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 3 where the goal is missed."""
    parser = measure.parser("slots", __doc__)
    parser.add_argument("--rounds", type=measure.at_least(1), default=2, help="of each side (default: 2)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the command, such as model=scripted")

    def run() -> int:
        asked = parser.parse_args(arguments)
        found: dict[str, list[Measured]] = {side: [] for side in SIDES}
        for _ in range(asked.rounds):
            for side in SIDES:
                found[side].append(measured(side, asked.overrides))
        print("\n".join(report(found)))
        return measure.FINE if ratio(found) >= GOAL else measure.SHORT

    return measure.told(run)


if __name__ == "__main__":
    sys.exit(main())
