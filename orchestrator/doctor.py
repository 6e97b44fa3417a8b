"""`mode=doctor`: a grid of no model by the real path, killed at every step, on the executor that is configured.

Each round asks for some more cells of one grid in one store and kills the first process that reaches its point; the
next round finds whatever that left. Two drivers at once finish the grid, and a last one finds nothing to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import orchestrator
from orchestrator import config
from orchestrator.config import Composed
from orchestrator.config_schema import ExecutorConfig
from orchestrator.run import prepare
from workers.errors import StoreError
from workers.faults import VARIABLE
from workers.store import Store

MARK = "RESIDUE_DOCTOR"
"""In the environment of everything the doctor starts, so that what is left of it is found."""
ROUND_S = 90
"""How long a round may take."""
FAREWELL_S = 30
"""How long what a killed driver started may outlive it."""
CELLS_A_ROUND = 6
_AGENT = re.compile(r"ray::\w*Agent")
KILLED = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Fault:
    """Who dies where."""

    victim: str
    point: str
    words: str


STEPS = {
    "asked": "before writing",
    "torn": "half way through writing",
    "written": "between write and link",
    "linked": "between link and answer",
    "committed": "after the commit",
}
TABLES = {"plans": "the plan", "runs": "the run", "trials": "a part"}


def _of(victim: str, table: str, *steps: str) -> Iterator[Fault]:
    for step in steps:
        yield Fault(victim, f"{table}:{step}", f"{STEPS[step]}, {TABLES[table]}")


FAULTS = (
    *_of("driver", "plans", "torn", "linked"),
    *_of("driver", "runs", "written", "committed"),
    Fault("worker", "arm", "in the middle of an arm"),
    *_of("worker", "trials", *STEPS),
    Fault("driver", "receipt", "before it reads that a block is committed"),
)


def examine(composed: Composed) -> bool:
    """Kill, look, and print both; whether nothing was lost, doubled or left behind.

    Raises:
        StoreError: beside the configured store there is no room for one of its own.
    """
    start, beside = time.monotonic(), Store(composed.run.store.root).root.parent
    with _folder(beside) as folder:
        patient = Patient(folder, composed.run.executor)
        try:
            found = list(_rounds(patient))
        finally:
            left = patient.left_behind(FAREWELL_S)
            _end(patient.living())
    found += [f"still running when it was over: process {pid}, {words[:80]}" for pid, words in left.items()]
    for line in found:
        print(f"WRONG: {line}")
    verdict = f"not sound, {len(found)} findings" if found else "sound: every cell once, nothing foreign, nothing left"
    print(f"{verdict} ({len(FAULTS)} kills, {time.monotonic() - start:.0f} s)")
    return not found


class Patient:
    """One store of the doctor's, and the commands that run on it.

    Args:
        folder: the commands' working folder; the store is in it.
        executor: where blocks run.
    """

    def __init__(self, folder: Path, executor: ExecutorConfig) -> None:
        self.folder, self.executor = folder, executor
        self.store = Store(folder / "results")
        self.token = uuid.uuid4().hex

    @property
    def overrides(self) -> list[str]:
        """The grid without a model, on that executor."""
        kept = self.executor.model_dump(exclude={"kind"}, exclude_none=True) if self.executor.kind == "ray" else {}
        where = [f"executor={self.executor.kind}", *(f"executor.{key}={value}" for key, value in kept.items())]
        return ["model=scripted", "name=doctor", "tracking=off", "store.root=results", "block_episodes=1", *where]

    def start(self, *more: str, fault: str = "") -> subprocess.Popen[str]:
        """A driver at work; `fault` as `workers.faults` reads it."""
        code = os.pathsep.join(filter(None, [orchestrator.__path__[0] + "/..", os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": code, MARK: self.token, VARIABLE: fault}
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "--quiet", *self.overrides, *more],
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def expected(self) -> set[tuple[str, int]]:
        """Each trial of the whole grid: its cell and draw."""
        composed = config.load(self.overrides)
        here = composed.run.store.model_copy(update={"root": str(self.store.root)})
        planned = prepare(replace(composed, run=composed.run.model_copy(update={"store": here}))).planned
        pairs = zip(planned.cell.tolist(), planned.draw.tolist(), strict=True)
        return {(planned.cells.ids[cell], draw) for cell, draw in pairs}

    def recorded(self) -> Counter[tuple[str, int]]:
        """Cell and draw → rows."""
        tables = self.store.readable(self.store.trials("rollback"), ("cell_id", "draw"))
        return Counter(
            pair
            for table in tables
            for pair in zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        )

    def left_behind(self, patience_s: float = 0.0) -> dict[int, str]:
        """Processes that were started for this store and still run, after waiting for them to end; pid → command.

        Two agents of Ray's are left out: they look for their head for a while, hold no model and take no work.
        """
        deadline = time.monotonic() + patience_s
        while (found := self._beside_agents()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def living(self) -> dict[int, str]:
        """All processes that were started for this store; pid → command."""
        mark, found = f"{MARK}={self.token}".encode(), {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(path.name)] = words.decode("utf-8", "replace").strip()
        return found

    def _beside_agents(self) -> dict[int, str]:
        return {pid: words for pid, words in self.living().items() if not _AGENT.fullmatch(words)}


def _rounds(patient: Patient) -> Iterator[str]:
    """What is wrong, round by round."""
    expected = patient.expected()
    print(f"{len(expected)} cells of no model, {len(FAULTS)} kills, executor {patient.executor.kind}", flush=True)
    for at, fault in enumerate(FAULTS, start=1):
        claim = patient.folder / f"{at}-{fault.point.replace(':', '-')}"
        driver = patient.start(f"limit={CELLS_A_ROUND * at}", fault=f"{fault.point}@{claim}")
        dies = fault.victim == "driver" or patient.executor.kind == "inline"
        yield from _ended(driver, KILLED if dies else 0, fault.point)
        if not claim.exists():
            yield f"{fault.point} was never reached, so nothing was killed there"
        yield from wrongs(patient, expected)
        _say(f"{fault.victim} killed {fault.words}", driver, patient)
    pair = [patient.start(), patient.start()]
    for driver in pair:
        yield from _ended(driver, 0, "two drivers at once")
        _say("two drivers at once, the whole grid", driver, patient)
    before = patient.recorded()
    last = patient.start()
    yield from _ended(last, 0, "a run with nothing left")
    _say("once more, with nothing left", last, patient)
    if patient.recorded() != before:
        yield "a run with nothing left recorded something"
    yield from wrongs(patient, expected)
    yield from (f"a cell is missing: {cell} draw {draw}" for cell, draw in sorted(expected - before.keys()))


def wrongs(patient: Patient, expected: set[tuple[str, int]]) -> Iterator[str]:
    """What no moment of a run may leave in the store."""
    for (cell, draw), count in patient.recorded().items():
        if count > 1:
            yield f"{count} rows of {cell} draw {draw}"
        if (cell, draw) not in expected:
            yield f"a row from nowhere: {cell} draw {draw}"
    yield from (f"damaged: {path}" for path in patient.store.damaged())


def _ended(driver: subprocess.Popen[str], code: int, what: str) -> Iterator[str]:
    try:
        _, said = driver.communicate(timeout=ROUND_S)
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.communicate()
        yield f"{what}: not over after {ROUND_S} s"
        return
    if driver.returncode != code:
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        yield f"{what}: the driver ended with {driver.returncode} and not {code}: {last[0]}"


def _say(what: str, driver: subprocess.Popen[str], patient: Patient) -> None:
    rows = patient.recorded()
    end = "was killed" if driver.returncode == KILLED else f"exit {driver.returncode}"
    print(f"  {what}: driver {end}; {rows.total()} rows of {len(rows)} cells", flush=True)


def _end(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def _folder(beside: Path) -> Iterator[Path]:
    """A folder on the file system of the store, which a cluster's machines share; gone afterwards."""
    try:
        beside.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="residue-doctor-", dir=beside))
    except OSError as failure:
        raise StoreError(f"cannot write {beside}: {failure.strerror}; choose another folder with store.root=") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
