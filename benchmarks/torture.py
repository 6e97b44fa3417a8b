"""Ten thousand null cells on a real three-node Ray cluster whose workers and drivers are killed all the time.

A worker dies every few seconds, at a random moment; the driver dies at random shares of the work, and the same command
is given again. In the end every cell is there once and nothing beside; the sealed root is that of a run that nobody
disturbed, on the same cluster. It takes some minutes, and is no part of `make bench`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import measure
from benchmarks.throughput import EFFECTS
from orchestrator import config
from orchestrator.run import prepare
from workers.errors import ConfigError

MODEL = """
source: {kind: scripted, decode_ms: 20}
device: {cpus: 1, gpus: 0}
reply_format: send_line
roles: {tool_return: tool, retrieved_document: user, user_turn: user, long_document: user}
"""
MODELS = ("null-1", "null-2", "null-3", "null-4")
NODES = 3
MARK = "RESIDUE_TORTURE"
PAUSE_S = (1.0, 4.0)
"""Between two deaths of workers."""
STALL_S = 240.0
"""Without a new part for so long, something is stuck."""


@dataclass
class Told:
    """What was done to a run, and what became of it."""

    num_workers: int = 0
    num_drivers: int = 0
    num_calls: int = 0
    wall_s: float = 0.0
    exits: list[int] = field(default_factory=list)


class Cluster:
    """Three machines of one CPU each, of this process's making."""

    def __init__(self, mark: str) -> None:
        os.environ[MARK] = mark
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster as Local

        self.mark = mark
        self._local: Any = Local(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        for _ in range(NODES - 1):
            self._local.add_node(num_cpus=1)
        self.address = str(self._local.address)

    def workers(self) -> list[int]:
        """Processes that hold a model."""
        return [pid for pid, words in _living(self.mark) if words.startswith("ray::Actor")]

    def end(self) -> None:
        """Let the machines go."""
        self._local.shutdown()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run undisturbed and tortured, compare, and print a table."""
    parser = measure.parser("torture", __doc__)
    parser.add_argument("--cells", type=measure.at_least(12), default=10_000)
    parser.add_argument("--drivers", type=measure.at_least(0), default=10, help="deaths of the driver")
    parser.add_argument("--seed", type=measure.at_least(0), default=0)
    return measure.told(lambda: _on_a_cluster(parser.parse_args(arguments)))


def _on_a_cluster(asked: argparse.Namespace) -> int:
    dice, cluster = random.Random(asked.seed), Cluster(uuid.uuid4().hex)
    try:
        with tempfile.TemporaryDirectory(prefix="residue-torture-") as folder:
            return _compared(Path(folder), cluster, asked.cells, asked.drivers, dice)
    finally:
        cluster.end()


def _compared(folder: Path, cluster: Cluster, num_cells: int, num_drivers: int, dice: random.Random) -> int:
    (conf := folder / "conf" / "model").mkdir(parents=True)
    for name in MODELS:
        (conf / f"{name}.yaml").write_text(MODEL)
    kept = [override for override in EFFECTS if not override.startswith("model=")]
    said = [*kept, f"model=[{','.join(MODELS)}]", f"limit={num_cells}", "block_episodes=4", "tracking=off"]
    calm, tortured = folder / "calm", folder / "tortured"
    quiet = run(_command(folder, said, calm, cluster), calm, cluster, [], None)
    steps = sorted(dice.uniform(0.02, 0.98) * num_cells for _ in range(num_drivers))
    hard = run(_command(folder, said, tortured, cluster), tortured, cluster, steps, dice)
    once_more = run(_command(folder, said, tortured, cluster), tortured, cluster, [], None)
    wrong = [*wrongs(folder, said, tortured), *unlike(calm, tortured)]
    wrong += [f"exit {told.exits[-1]} at the end" for told in (quiet, hard, once_more) if told.exits[-1]]
    _print(num_cells, quiet, hard, tortured)
    for line in wrong:
        print(f"WRONG: {line}")
    print("every cell once, nothing beside, the same seal" if not wrong else f"{len(wrong)} findings")
    return measure.FAILED if wrong else measure.FINE


def run(
    command: Sequence[str], store: Path, cluster: Cluster, steps: Sequence[float], dice: random.Random | None
) -> Told:
    """Give the command until it ends by itself.

    Args:
        steps: trials recorded at which the driver is killed, in order.
        dice: when the next worker dies, and which; None: none does.
    """
    told, left, start = Told(), list(steps), time.monotonic()
    next_s = start + dice.uniform(*PAUSE_S) if dice else float("inf")
    while True:
        told.num_calls += 1
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        seen, moved_s = -1, time.monotonic()
        while driver.poll() is None:
            time.sleep(0.05)
            now_s, num = time.monotonic(), recorded(store)
            if num != seen:
                seen, moved_s = num, now_s
            if now_s - moved_s > STALL_S:
                driver.kill()
                raise ConfigError(f"nothing was recorded for {STALL_S:g} s, at {num} trials")
            if left and num >= left[0]:
                left.pop(0)
                driver.kill()
                told.num_drivers += 1
            if dice and now_s >= next_s:
                told.num_workers += _kill_one(cluster, dice)
                next_s = now_s + dice.uniform(*PAUSE_S)
        told.exits.append(driver.wait())
        if driver.returncode != -signal.SIGKILL:
            told.wall_s = time.monotonic() - start
            return told


_counted: dict[Path, int] = {}


def recorded(store: Path) -> int:
    """Trials in the store's parts."""
    for part in store.glob("trials/*/part-*.parquet"):
        if part not in _counted:
            _counted[part] = pq.read_metadata(part).num_rows
    return sum(count for part, count in _counted.items() if part.is_relative_to(store))


def wrongs(folder: Path, said: Sequence[str], store: Path) -> Iterator[str]:
    """What the grid asks for, against the rows of every part."""
    planned = prepare(config.load([*said, f"store.root={store}"], config_dir=folder / "conf")).planned
    pairs = zip(planned.cell.tolist(), planned.draw.tolist(), planned.is_selected.tolist(), strict=True)
    asked = {(planned.cells.ids[cell], draw) for cell, draw, is_selected in pairs if is_selected}
    rows = Counter[tuple[str, int]]()
    statuses = Counter[str]()
    for part in store.glob("trials/*/part-*.parquet"):
        table = pq.read_table(part, columns=["cell_id", "draw", "status"])
        rows.update(zip(table["cell_id"].to_pylist(), table["draw"].to_pylist(), strict=True))
        statuses.update(table["status"].to_pylist())
    yield from (f"missing: {trial}" for trial in asked - rows.keys())
    yield from (f"from nowhere: {trial}" for trial in rows.keys() - asked)
    yield from (f"{count} rows of {trial}" for trial, count in rows.items() if count > 1)
    yield from (f"{count} rows are {status}" for status, count in statuses.items() if status != "done")


def unlike(calm: Path, tortured: Path) -> Iterator[str]:
    """Trials whose sealed columns are not the same in both stores."""
    ours, theirs = _sealed(calm), _sealed(tortured)
    yield from (f"sealed columns differ: {trial}" for trial in ours if ours[trial] != theirs.get(trial))


def _sealed(store: Path) -> dict[tuple[str, int], str]:
    """Trial → its sealed columns."""
    found = {}
    for part in store.glob("trials/*/part-*.parquet"):
        schema = pq.read_schema(part)
        names = [one.name for one in schema if (one.metadata or {}).get(b"sealed") == b"true"]
        for row in pq.read_table(part, columns=names).to_pylist():
            found[row["cell_id"], row["draw"]] = repr(row)
    return found


def _command(folder: Path, said: Sequence[str], store: Path, cluster: Cluster) -> list[str]:
    where = [f"store.root={store}", "executor=ray", f"executor.address={cluster.address}"]
    return [sys.executable, "-m", "orchestrator", "--quiet", *_conf(folder), *said, *where]


def _conf(folder: Path) -> list[str]:
    return ["--config-dir", str(folder / "conf")]


def _kill_one(cluster: Cluster, dice: random.Random) -> int:
    if not (found := cluster.workers()):
        return 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(dice.choice(found), signal.SIGKILL)
        return 1
    return 0


def _living(mark: str) -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                yield int(path.name), (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


def _print(num_cells: int, quiet: Told, hard: Told, store: Path) -> None:
    attempts = Counter[int]()
    for part in store.glob("trials/*/part-*.parquet"):
        attempts.update(pq.read_table(part, columns=["attempts"])["attempts"].to_pylist())
    retried = sum(count for number, count in attempts.items() if number > 1)
    rows = [
        ("cells", f"{num_cells}", f"{num_cells}"),
        ("workers killed", "0", f"{hard.num_workers}"),
        ("drivers killed", "0", f"{hard.num_drivers}"),
        ("commands given", f"{quiet.num_calls}", f"{hard.num_calls}"),
        ("cells tried again under one driver", "0", f"{retried}, at most {max(attempts, default=0)} times"),
        ("wall, s", f"{quiet.wall_s:.0f}", f"{hard.wall_s:.0f} ({hard.wall_s / quiet.wall_s:.2f} ×)"),
    ]
    print("\n".join(measure.table(("", "undisturbed", "killed"), rows)))
    print(f"Three machines of one CPU each, of one Ray cluster on {measure.machine()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
