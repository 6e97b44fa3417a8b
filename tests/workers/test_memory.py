"""Where memory is short: fewer states at a time, then one, then another slot; never another row (DESIGN §4.7)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from workers.block import Block, Job
from workers.errors import OutOfMemory, raise_if_full
from workers.runner import Computed
from workers.worker import RUNGS, Worker

STARVED = """
import gc, resource, sys
from pathlib import Path
from orchestrator import config
from tests.orchestrator.unions import laid_out
from tests.planned import blocks, planned
from workers.block import Job
from workers.errors import OutOfMemory
from workers.worker import Worker

composed = config.load(["model=random-llama", "limit=36"])
(spec,) = composed.models
(block,) = blocks(planned(laid_out(composed).cells), 6)["random-llama"][:1]

def worker():
    return Worker(Job(spec, "{}", "rollback", sys.argv[1], "run", "class", 1))

def seen(rows):
    return [(row["status"], row.get("reply_ids"), row.get("layer1"), row.get("effect_status")) for row in rows]

plain = seen(worker().rows(block)[0])
assert {row[0] for row in plain} == {"done"}
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
felt = []
for mib in [8, 6, 4, 3, 2, 1, 0] * 3:
    starved = worker()
    gc.collect()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + mib * 2**20, hard))
    try:
        rows, stop = starved.rows(block)
    except OutOfMemory:
        rows = None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    if rows is not None:
        assert (seen(rows), stop) == (plain, ""), (mib, {row.get("error") for row in rows}, stop)
    felt += ["memory"] if rows is None else sorted({row["rung"] for row in rows} - {""})
    if len(felt) > 2:
        break
print(len(felt))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not keep to RLIMIT_AS")
def test_whatever_memory_is_left_rows_are_those_of_plenty_or_it_is_said_to_be_too_little(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Real allocations of a real model that fail wherever they happen to fail.

    lm-evaluation-harness#1678, #2458: a batch that was tried out beforehand was too large for a later one.
    """
    command = [sys.executable, "-c", STARVED, str(tmp_path_factory.mktemp("store"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "memory was never short, so nothing was tried"


class Small:
    """A runner for which there is memory only on some rungs."""

    def __init__(self, runner: object, num_full: int) -> None:
        self.runner, self.num_full = runner, num_full
        self.asked: list[bool] = []

    def run(self, works: object, *, is_early: bool = False) -> Computed:
        self.asked.append(is_early)
        if len(self.asked) <= self.num_full:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return self.runner.run(works, is_early=is_early)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("num_full", [0, 1, 2])
def test_the_rung_on_which_there_was_memory_is_in_the_row(
    job: Job, make_blocks: Callable[..., list[Block]], num_full: int
) -> None:
    worker, block = Worker(job), make_blocks("limit=6")[0]
    worker.runner = small = Small(worker.runner, num_full)  # type: ignore[assignment]
    rows, _ = worker.rows(block)
    assert {row["rung"] for row in rows} == {RUNGS[num_full]}
    assert small.asked == [False, False, True][: num_full + 1]


def test_a_block_for_which_there_is_no_memory_on_any_rung_is_not_the_trials_fault(
    job: Job, make_blocks: Callable[..., list[Block]]
) -> None:
    worker = Worker(job)
    worker.runner = Small(worker.runner, 3)  # type: ignore[assignment]
    with pytest.raises(OutOfMemory):
        worker.rows(make_blocks("limit=6")[0])


@pytest.mark.parametrize(
    "words",
    [
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "could not create a primitive",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "std::bad_alloc",
    ],
)
def test_every_librarys_way_to_say_full_is_known_and_other_errors_are_not(words: str) -> None:
    """ray#59395: an error of the device is told from one of the item."""
    with pytest.raises(OutOfMemory):
        raise_if_full(RuntimeError(words))
    raise_if_full(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
