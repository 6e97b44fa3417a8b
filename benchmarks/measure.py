"""What every benchmark prints alike: the machine and its load, medians with quartiles, a table, errors in one line."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NoReturn

from orchestrator import ledger
from orchestrator.executors.share import num_cores
from workers.errors import ConfigError, IsolationError, OutOfMemory, ResidueError

FINE, FAILED, SHORT = 0, 1, 3
"""Exit codes: measured; cannot be measured, or sides differ that must not; a claim of the docs is not met here."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting with a usage text."""
        raise ConfigError(f"{message}; try --help")


def parser(name: str, doc: str | None) -> Parser:
    """For the script of that name, described by the first line of its docstring."""
    return Parser(prog=f"python -m benchmarks.{name}", description=(doc or "").splitlines()[0])


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number from `least` on."""

    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return number


def told(measured: Callable[[], int]) -> int:
    """Run a script; what is wrong with its command or its model is one line and exit code 1."""
    try:
        return measured()
    except (ResidueError, IsolationError, OutOfMemory) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED


def spread(values: Sequence[float]) -> str:
    """The median, with quartiles where there are several values."""
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.4g}"
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{median(values):.4g} ({low:.4g}–{high:.4g})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table: the first column is words, the others are numbers."""
    marks = ["---", *["---:"] * (len(header) - 1)]
    yield from (f"| {' | '.join(row)} |" for row in (header, marks, *rows))


def machine() -> str:
    """Where this was measured, under which load, and at which commit."""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    commit = ledger.commit() or "no checkout"
    return (
        f"{_processor()}, {num_cores()} cores, {_memory_gib():.0f} GiB, {platform.system()}; "
        f"load {load} at the end; commit {commit[:12]}{'+' * commit.endswith('+')}; {ledger.versions()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
