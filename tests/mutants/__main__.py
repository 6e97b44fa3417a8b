"""`make mutants`: take one guard away in a copy of the tree, run the tests named beside it, and want them to fail.

Prints a line a mutant. Exit code 1 when one survives, when a guard is not where the table says, or when the tests fail
with every guard in place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("orchestrator", "workers", "analysis", "conf", "sql", "tests", "pyproject.toml")
NUM_COPIES = 2
PATIENCE_S = 300
PASSED, FAILED = 0, 1
"""pytest's exit codes; any other says that the tests did not run."""


def copy_tree(target: Path) -> Path:
    """What the tests need, where a guard may be missing."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    return target


@contextmanager
def without_guard(tree: Path, mutant: Mutant):  # type: ignore[no-untyped-def]
    """The tree with the guard removed, while it lasts."""
    path = tree / mutant.file
    honest = path.read_text(encoding="utf-8")
    if honest.count(mutant.guard) != 1:
        raise LookupError(f"the guard stands {honest.count(mutant.guard)} times in {mutant.file}")
    path.write_text(honest.replace(mutant.guard, mutant.removal), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(honest, encoding="utf-8")


def run_tests(tree: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """The tests, on the code of that tree alone."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def judge(trees: SimpleQueue[Path], mutant: Mutant) -> str:
    """`killed`, or what went wrong."""
    tree = trees.get()
    try:
        with without_guard(tree, mutant):
            done = run_tests(tree, mutant.tests)
    except (LookupError, subprocess.TimeoutExpired) as trouble:
        return f"BROKEN: {trouble}"
    finally:
        trees.put(tree)
    if done.returncode == FAILED:
        return "killed"
    return "SURVIVED" if done.returncode == PASSED else f"BROKEN: pytest ended with {done.returncode}"


def main(wanted: Sequence[str]) -> int:
    """Judge the mutants whose violation or file contains one of the words, or all of them."""
    chosen = [it for it in MUTANTS if not wanted or any(word in f"{it.violation} {it.file}" for word in wanted)]
    if not chosen:
        print(f"no mutant has {' or '.join(wanted)} in its name or file", file=sys.stderr)
        return 1
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for index in range(NUM_COPIES):
            trees.put(copy_tree(Path(folder) / str(index)))
        honest = run_tests(Path(folder) / "0", sorted({test for mutant in chosen for test in mutant.tests}))
        if honest.returncode != PASSED:
            print(f"{honest.stdout}\nthe tests fail with every guard in place", file=sys.stderr)
            return 1
        with ThreadPoolExecutor(NUM_COPIES) as pool:
            verdicts = []
            for mutant, verdict in zip(chosen, pool.map(partial(judge, trees), chosen), strict=True):
                print(f"{verdict:9} {mutant.violation}  ({mutant.file})", flush=True)
                verdicts.append(verdict)
    num_killed = verdicts.count("killed")
    print(f"{num_killed} of {len(chosen)} mutants killed in {time.monotonic() - start:.0f} s")
    return 0 if num_killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
