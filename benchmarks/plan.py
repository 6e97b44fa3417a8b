"""`python benchmarks/plan.py`: what the driver takes to plan a grid against a store that holds all of it, by size.

A round is what `mode=plan` and the start of a run do once the configuration is composed: expand the grid, compute every
id, and subtract what the store's parts hold. Each size is a process of its own, so that its memory is its own, and all
sizes come in each round. The grid is the rollback study's, every level of every axis on more and more models. The
parts are written first and not timed; they have all the columns of a run's, and hold ids and statuses.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from orchestrator import config, ledger
from orchestrator.config import Composed
from orchestrator.config_sources import CONF
from orchestrator.grid import ModelIdentity, expand, identify
from orchestrator.plan import State, known, plan
from workers import arms, parquet
from workers.errors import ConfigError, ResidueError
from workers.schema import arrow_schema
from workers.store import Store

SIZES = (10_000, 100_000, 1_000_000)
PART_ROWS = 480
"""Rows of a part: what a large grid's blocks commit."""
AXES = {
    "surface": ("tensor_probe", "session_app", "framework_default", "langgraph"),
    "effect_type": ("send_message", "transfer", "write_file", "grant_role", "post_message", "send_money", "post_page"),
    "policy": ("allowlist", "allowlist_both", "denylist", "conditional", "two_step"),
    "guard": ("false", "true"),
    "vehicle": ("tool_return", "retrieved_document", "user_turn"),
    "strength": ("neutral", "suggestive", "imperative"),
    "kind": ("attack", "control"),
}


@dataclass(frozen=True, slots=True)
class Round:
    """One plan: seconds of each step by the clock, those of the CPU for both, and what the process held at most."""

    num_cells: int
    expand_s: float
    subtract_s: float
    cpu_s: float
    peak_mb: float
    num_to_run: int

    @property
    def total_s(self) -> float:
        """Expansion, ids and anti-join."""
        return self.expand_s + self.subtract_s


def composed(num_cells: int) -> Composed:
    """The smallest grid of this kind that has at least so many cells.

    Raises:
        ConfigError: there are not so many.
    """
    treatments = arms.names()
    models = sorted(path.stem for path in CONF.glob("model/random-*.yaml"))
    levels = {axis: found[:1] for axis, found in AXES.items()}
    for axis in reversed(AXES):
        levels[axis] = AXES[axis]
        num_episodes = math.prod(map(len, levels.values()))
        num_models = -(-num_cells // (num_episodes * len(treatments)))
        if num_models == 1:
            break
    if num_models > len(models):
        raise ConfigError(f"there are at most {len(models) * num_episodes * len(treatments)} cells of this kind")
    said = [f"study.levels.{axis}=[{','.join(found)}]" for axis, found in levels.items()]
    return config.load([f"model=[{','.join(models[:num_models])}]", f"study.arms=[{','.join(treatments)}]", *said])


def cells_of(num_cells: int) -> tuple[Composed, dict[str, ModelIdentity]]:
    """The grid, with models that are nothing but their names: no weights are read."""
    grid = composed(num_cells)
    return grid, {model.name: identify(model, model.name, None) for model in grid.models}


def fill(store: Store, num_cells: int) -> None:
    """Write every cell of the grid as done, in parts as a run's blocks leave them."""
    grid, models = cells_of(num_cells)
    store.prepare()
    schema = arrow_schema(grid.study.name, grid.study.columns)
    ids = expand(grid, models).ids
    for start in range(0, len(ids), PART_ROWS):
        part = [ids[at] for at in range(start, min(start + PART_ROWS, len(ids)))]
        rows = [{"cell_id": cell_id, "draw": 0, "status": "done", "generation": 0} for cell_id in part]
        parquet.commit(store.trials(grid.study.name), f"{start:09}", parquet.rows_to_table(rows, schema))


def measure(store: Store, num_cells: int) -> Round:
    """Plan the grid against what `fill` left, in this process."""
    _timed(store, *cells_of(1))  # loads what planning needs, which takes as long for any size
    return _timed(store, *cells_of(num_cells))


def _timed(store: Store, grid: Composed, models: dict[str, ModelIdentity]) -> Round:
    start, start_cpu = time.perf_counter(), time.process_time()
    cells = expand(grid, models)
    expanded = time.perf_counter()
    planned = plan(cells, known(cells, ledger.records(store, grid.study.name)), {}, retry_errors=False)
    done, cpu_s = time.perf_counter(), time.process_time() - start_cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return Round(len(cells), expanded - start, done - expanded, cpu_s, peak_mb, int(planned.is_in(State.RUN).sum()))


def rounds(folder: Path, sizes: Sequence[int], num_rounds: int) -> dict[int, list[Round]]:
    """Size → its rounds, each in a process of its own."""
    for size in sizes:
        _apart("fill", folder, size)
    found: dict[int, list[Round]] = {size: [] for size in sizes}
    for _ in range(num_rounds):
        for size in sizes:
            found[size].append(Round(**json.loads(_apart("measure", folder, size))))
    return found


def _apart(step: str, folder: Path, size: int) -> str:
    """One step in a fresh process; what it printed."""
    command = [sys.executable, __file__, "--step", step, "--store", str(folder / str(size)), "--sizes", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(done.stderr.strip().removeprefix("error: ") or f"{step} of {size} cells failed")
    return done.stdout


def slope(points: Sequence[tuple[float, float]]) -> float:
    """By which power of the size the seconds grow: the slope of the least-squares line through both logarithms."""
    xs, ys = ([math.log(point[at]) for point in points] for at in (0, 1))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def report(found: dict[int, list[Round]]) -> Iterator[str]:
    """The table as Markdown, how it grows, and the machine."""
    steps = ("expand + ids s", "anti-join s", "together s", "CPU s")
    header = ("cells", "finished rows", *steps, "µs a cell", "peak MB", "to run")
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---:'] * len(header))} |"
    points = []
    for of_size in found.values():
        size, total = of_size[0].num_cells, [one.total_s for one in of_size]
        points.append((float(size), median(total)))
        spread = f"{median(total):.3g} ({min(total):.3g}-{max(total):.3g})"
        expand_s, subtract_s = (median(getattr(one, step) for one in of_size) for step in ("expand_s", "subtract_s"))
        peak_mb, to_run = max(one.peak_mb for one in of_size), max(one.num_to_run for one in of_size)
        cpu_s = median(one.cpu_s for one in of_size)
        numbers = (f"{size:,}", f"{size:,}", f"{expand_s:.3g}", f"{subtract_s:.3g}", spread, f"{cpu_s:.3g}")
        yield f"| {' | '.join(numbers)} | {1e6 * median(total) / size:.3g} | {peak_mb:.0f} | {to_run} |"
    yield ""
    if len(points) > 1:
        yield f"seconds grow with the power {slope(points):.2f} of the cells (1 is linear)"
    yield f"{len(next(iter(found.values())))} rounds, median (least-most); the peak is the whole process's"
    yield f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: where others run, the CPU's seconds tell more"
    yield f"{platform.platform()}, {platform.processor() or platform.machine()}, Python {platform.python_version()}"


def drawn(points: Sequence[tuple[float, float]]) -> str:
    """Both logarithms as SVG, with a line of slope 1 through the last point."""
    size, seconds = zip(*points, strict=True)
    decades = [math.floor(math.log10(min(size))), math.ceil(math.log10(max(size)))]
    lowest = math.floor(math.log10(min(seconds)))
    highest = math.ceil(math.log10(max(seconds)))

    def at(x: float, y: float) -> str:
        across = (math.log10(x) - decades[0]) / (decades[1] - decades[0])
        up = (math.log10(y) - lowest) / (highest - lowest)
        return f"{60 + 320 * across:.1f},{220 - 200 * up:.1f}"

    linear = " ".join(at(x, seconds[-1] * x / size[-1]) for x in size if seconds[-1] * x / size[-1] >= 10.0**lowest)
    dots = "".join('<circle cx="{}" cy="{}" r="4"/>'.format(*at(x, y).split(",")) for x, y in points)
    ticks = "".join(
        f'<text x="{60 + 320 * (d - decades[0]) / (decades[1] - decades[0]):.0f}" y="240">{10**d:,}</text>'
        for d in range(decades[0], decades[1] + 1)
    ) + "".join(
        f'<text x="50" y="{224 - 200 * (d - lowest) / (highest - lowest):.0f}" text-anchor="end">{10.0**d:g} s</text>'
        for d in range(lowest, highest + 1)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 265" font-family="sans-serif" font-size="11">'
        f'<path d="M60,20V220H380" fill="none" stroke="#888"/>{ticks}{dots}'
        f'<polyline points="{linear}" fill="none" stroke="#888" stroke-dasharray="4"/>'
        '<text x="60" y="258">cells planned against as many finished rows; dashed: linear</text></svg>\n'
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(message)


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python benchmarks/plan.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="cells, at least; the table says how many")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed (default: 3)")
    parser.add_argument("--plot", type=Path, help="write the curve there, as SVG")
    parser.add_argument("--step", choices=("fill", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    sizes = asked.sizes.split(",")
    if not all(size.strip().isdigit() and int(size) for size in sizes):
        raise ConfigError(f"--sizes {asked.sizes}: name numbers of cells, such as 10000,100000")
    if asked.rounds < 1:
        raise ConfigError("--rounds: at least 1")
    asked.sizes = sorted({int(size) for size in sizes})
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where the command is wrong, 3 where the store's cells would run again."""
    try:
        asked = _asked(arguments)
        if asked.step == "fill":
            fill(Store(asked.store), asked.sizes[0])
            return 0
        if asked.step == "measure":
            print(json.dumps(asdict(measure(Store(asked.store), asked.sizes[0]))))
            return 0
        with tempfile.TemporaryDirectory() as folder:
            found = rounds(Path(folder), asked.sizes, asked.rounds)
        print("\n".join(report(found)))
        if asked.plot:
            totals = [(float(o[0].num_cells), median(one.total_s for one in o)) for o in found.values()]
            asked.plot.write_text(drawn(totals), encoding="utf-8")
    except (ResidueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 3 if any(one.num_to_run for of_size in found.values() for one in of_size) else 0


if __name__ == "__main__":
    sys.exit(main())
