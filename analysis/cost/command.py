"""`python -m analysis cost`: its options, its curves and its answer."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa

from analysis.cost.flush import price
from analysis.cost.prefill import PAPER, Curve, Fit, Point, fit
from analysis.cost.tables import MACHINE, machine, show
from analysis.errors import AnalysisError, nearest
from analysis.formats import write
from analysis.terminal import console
from analysis.warehouse import Warehouse, connect

Row = dict[str, Any]
MOST_TENANTS, MOST_TOKENS = 100_000, 10**9
PREFILLS = f"""
    select {", ".join(MACHINE)}, len(committed_ids) as num_tokens, restore_ms from trials
    where study = 'cost' and arm = 'fresh' and status = 'done' and restore_ms is not null order by all
"""
NO_ROWS = (
    "no restore was timed in {store}: run `python -m orchestrator +grid=cost`, or give --coefficients paper or A,B"
)
NO_TOKENS = "--tokens is missing: coefficients name no length, and the paper does not print those of its regimes"


@dataclass(frozen=True, slots=True)
class Basis:
    """A curve to price with.

    Attributes:
        name: the model and its machine, or whose coefficients they are.
        fit: how it was fitted; None where the coefficients were given.
    """

    name: str
    curve: Curve
    fit: Fit | None = None

    def lengths(self, asked: Sequence[int] | None) -> Sequence[int]:
        """The lengths to price: those asked for, or the longest that was measured.

        Raises:
            AnalysisError: there is neither.
        """
        if asked is not None:
            return asked
        if self.fit is None:
            raise AnalysisError(NO_TOKENS)
        return self.fit.lengths[-1:]

    def is_beyond(self, num_tokens: int) -> bool:
        """Whether the length lies outside those measured."""
        return self.fit is not None and not self.fit.lengths[0] <= num_tokens <= self.fit.lengths[-1]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The command's own options."""
    command.add_argument(
        "--coefficients",
        type=_coefficients,
        default="fit",
        metavar="fit|paper|A,B[,C]",
        help="t(n) = A + B·n + C·n² in ms: fitted to what +grid=cost measured (default), the paper's, or yours",
    )
    command.add_argument(
        "--tenants", type=_counts(MOST_TENANTS), default=(1, 32, 64), metavar="N[,N…]", help="default: 1,32,64"
    )
    command.add_argument(
        "--tokens",
        type=_counts(MOST_TOKENS),
        metavar="n[,n…]",
        help="tokens in each tenant's cache (default: the longest length measured)",
    )


def show_cost(asked: argparse.Namespace) -> None:
    """Answer the command: tables for people, the prices alone for a program. Given coefficients need no store.

    Raises:
        AnalysisError: nothing was measured, no length is named, or a curve is not positive at one.
    """
    restores: list[Row] = []
    if isinstance(asked.coefficients, Curve):
        bases = [Basis("paper" if asked.coefficients == PAPER else "given", asked.coefficients)]
    else:
        with connect(asked.store) as warehouse:
            bases, restores = fitted(warehouse), warehouse.sql("from restore_costs").to_pylist()
    prices = list(priced(bases, asked.tenants, asked.tokens))
    if asked.format == "table":
        show(console(), restores, {basis.name: (basis.curve, basis.fit) for basis in bases}, prices)
    else:
        write(pa.Table.from_pylist(prices), asked.format)


def fitted(warehouse: Warehouse) -> list[Basis]:
    """A curve for each model on each machine: times of different machines are never pooled.

    Raises:
        AnalysisError: no re-prefill was timed, or one length only.
    """
    found: dict[str, list[Point]] = {}
    for row in warehouse.sql(PREFILLS).to_pylist():
        found.setdefault(machine(row), []).append(Point(row["num_tokens"], row["restore_ms"]))
    if not found:
        raise AnalysisError(NO_ROWS.format(store=warehouse.root))
    fits = {name: fit(points) for name, points in found.items()}
    return [Basis(name, one.curve, one) for name, one in fits.items()]


def priced(bases: Sequence[Basis], tenants: Sequence[int], tokens: Sequence[int] | None) -> Iterator[Row]:
    """One abort among so many tenants of so many tokens each, on every basis.

    Raises:
        AnalysisError: no length is named or measured, or a curve is not positive at one.
    """
    for basis in bases:
        for size, count in product(basis.lengths(tokens), tenants):
            found = price(basis.curve, [size] * count)
            yield {
                "basis": basis.name,
                "num_tenants": count,
                "num_tokens": size,
                "local_ms": float(found.local_ms),
                "global_ms": float(found.global_ms),
                "global_over_local": float(found.ratio),
                "num_hit_local": found.num_hit_local,
                "num_hit_global": found.num_hit_global,
                "is_extrapolated": basis.is_beyond(size),
            }


def _coefficients(text: str) -> Curve | str:
    if text in ("fit", "paper"):
        return PAPER if text == "paper" else text
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        hint = nearest(text, ("fit", "paper", "A,B", "A,B,C"))
        raise argparse.ArgumentTypeError(f"unknown coefficients {text!r}{hint}") from None
    if len(values) not in (2, 3) or not all(map(math.isfinite, values)):
        raise argparse.ArgumentTypeError(f"{text!r} is not two or three finite numbers, A,B or A,B,C")
    return Curve(values)


def _counts(most: int) -> Callable[[str], tuple[int, ...]]:
    def read(text: str) -> tuple[int, ...]:
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isascii() and part.isdigit() and len(part) < 12 and 0 < int(part) <= most for part in parts):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers from 1 to {most}, such as 1,32,64")
        return tuple(map(int, parts))

    return read
