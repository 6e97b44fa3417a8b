"""The answer of `cost` on a terminal: what was timed, the curves, the prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.census import rank
from analysis.cost.prefill import PAPER, Curve, Fit
from analysis.terminal import NOTHING, grid, neutral, plain

Row = dict[str, Any]
MACHINE = ("model", "device", "host")
OF_THE_PAPER = "fitted there to n ≤ 960 on its own machine; no millisecond below is a figure of arXiv 2608.15939"


def machine(row: Row) -> str:
    """The model and where it ran, as one name."""
    return " · ".join(plain(row[name]) for name in MACHINE)


def show(
    out: Console, restores: Sequence[Row], curves: Mapping[str, tuple[Curve, Fit | None]], prices: Sequence[Row]
) -> None:
    """Print the restores by length, where any were timed, each curve, and what an abort costs on it."""
    if restores:
        out.print(_restores(restores))
        out.print()
    for name, (curve, fit) in curves.items():
        for line in _said(name, curve, fit):
            out.print(Text(neutral(line)), soft_wrap=True)
    out.print()
    out.print(_prices(prices))
    if any(row["is_extrapolated"] for row in prices):
        out.print(Text("* outside the lengths measured: an extrapolation"))


def _restores(rows: Sequence[Row]) -> Table:
    """A line for each length on each machine, a column for each arm that restores."""
    arms = sorted({row["arm"] for row in rows if row["restore_ms"] is not None or row["num_unsupported"]}, key=rank)
    found = {(machine(row), row["num_tokens"], row["arm"]): row for row in rows}
    places = sorted({place[:2] for place in found})
    lines = [[name, str(size), *(_quartiles(found.get((name, size, arm))) for arm in arms)] for name, size in places]
    title = "Restores: median ms (quartiles); a crop works on a copy, which is timed too"
    return grid(["model and machine", "tokens", *arms], lines, title=title, right=range(1, 2 + len(arms)), elided=[0])


def _quartiles(row: Row | None) -> str:
    if row is None or (row["restore_ms"] is None and not row["num_unsupported"]):
        return NOTHING
    if row["restore_ms"] is None:
        return "unsupported"
    low, middle, high = (_ms(row[name]) for name in ("restore_ms_q1", "restore_ms", "restore_ms_q3"))
    return f"{middle} ({low}–{high})"


def _said(name: str, curve: Curve, fit: Fit | None) -> Iterator[str]:
    """A curve and how good it is, in lines."""
    yield f"t(n) = {curve}   {name}"
    if curve == PAPER:
        yield OF_THE_PAPER
    if fit is not None:
        r2 = NOTHING if fit.r2 is None else f"{fit.r2:.4f}"
        line, parabola = (NOTHING if error is None else f"{_ms(error)} ms" for error in fit.errors_ms)
        yield (
            f"R² {r2}; error at a length left out: line {line}, parabola {parabola}; {fit.num_points} prefills of "
            f"{len(fit.lengths)} lengths, {fit.lengths[0]} to {fit.lengths[-1]} tokens"
        )


def _prices(rows: Sequence[Row]) -> Table:
    lines = [
        [
            neutral(row["basis"]),
            str(row["num_tenants"]),
            f"{row['num_tokens']}{'*' if row['is_extrapolated'] else ''}",
            _ms(row["local_ms"]),
            _ms(row["global_ms"]),
            f"{row['global_over_local']:g}",
            f"{row['num_hit_local']} / {row['num_hit_global']}",
        ]
        for row in rows
    ]
    header = ["t(n) of", "tenants", "tokens\neach", "local\nms", "global\nms", "global\n/ local", "others hit\nl. / g."]
    title = "One tenant aborts: its own cache is prefilled again, or every tenant's"
    return grid(header, lines, title=title, right=range(1, len(header)), elided=[0])


def _ms(value: float) -> str:
    """Three digits where it is small; no more than the clock knows."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
