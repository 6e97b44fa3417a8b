"""A hundred thousand cells are planned in little memory; what is counted of them is what their trials say."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from orchestrator import config
from orchestrator.blocks import missing, queues
from orchestrator.plan import Plan, State, by_model, known
from orchestrator.run import result
from tests.orchestrator.unions import laid_out
from tests.planned import planned, records

ROOT = Path(__file__).parents[2]
GROWTH_MB = 60
"""An object for each cell, with the texts of the episodes, would take more than twice as much; columns take a third."""
LARGE = """
import resource
from benchmarks import plan as benchmark
from orchestrator.blocks import queues
from orchestrator.plan import known, plan, plan_id

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def made(num_cells):
    cells = benchmark.expand(*benchmark.cells_of(num_cells))
    planned = plan(cells, known(cells, []), {}, retry_errors=False)
    blocks = [block for queue in queues(planned).values() for block in queue.in_blocks(100)]
    plan_id(planned)
    return len(cells), sum(block.num_trials for block in blocks)

made(1)
before = peak()
print(*made(100_000), peak() - before)
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="counts memory in other units there")
def test_a_hundred_thousand_cells_are_planned_in_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    num_cells, num_trials, growth_kb = map(int, done.stdout.split())
    assert num_cells == num_trials >= 100_000
    assert growth_kb / 1024 < GROWTH_MB


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Two models, one blocked; sampled and greedy cells; some selected, some of them recorded."""
    decode = "study.decode={temperature:[0.0,0.7],num_draws:3}"
    where = "where=strength != 'neutral'"
    cells = laid_out(config.load(["model=[scripted,random-llama]", decode, where])).cells
    statuses = ("done", "error", "unsupported", "invalid")
    rows = [(cell.cell_id, 0, statuses[at % 4], at % 2) for at, cell in enumerate(cells) if at % 3]
    return planned(cells, rows, {"random-llama": "no weights"}, retry=True)


def test_counts_by_model_are_those_of_the_trials(plan: Plan) -> None:
    for cells in (plan.cells.is_selected, plan.cells.rows.num_draws > 1):
        counted: dict[str, Counter[State]] = {}
        kept = {cell.cell_id for cell, is_in in zip(plan.cells, cells, strict=True) if is_in}
        for entry in plan:
            if entry.cell.cell_id in kept:
                counted.setdefault(entry.cell.model, Counter())[entry.state] += 1
        assert {model: +states for model, states in by_model(plan, cells).items()} == counted


def test_a_run_comes_to_what_its_trials_came_to(plan: Plan) -> None:
    (queue,) = queues(plan).values()
    first, second, *_ = queue.by_episodes(1)
    after = [
        (entry.cell.cell_id, entry.draw, "done", entry.generation) for entry in map(plan.__getitem__, first.trials)
    ]
    found = known(plan.cells, [records(after)])
    missed = missing([(second, "worker lost 3 times")])
    told = result(plan, found, missed)
    selected = [(number, entry) for number, entry in enumerate(plan) if entry.cell.is_selected]
    why = {
        number: "worker lost 3 times" if number in second.trials else entry.blocked or "not run"
        for number, entry in selected
        if number not in first.trials
    }
    assert told.missing == Counter(why.values())
    assert told.statuses == {"done": first.num_trials}
    assert told.num_run == first.num_trials
    assert not told.is_complete
