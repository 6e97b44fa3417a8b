"""How long a prefill takes, by its length: a line, or a parabola where that foretells a length better. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from analysis.errors import AnalysisError


class Point(NamedTuple):
    """One prefill that was timed."""

    num_tokens: int
    ms: float


@dataclass(frozen=True, slots=True)
class Curve:
    """t(n) = a + b·n + c·n²; coefficients in ms, ms a token, ms a token², the last one or two may be absent."""

    coefficients: tuple[float, ...]

    def ms(self, num_tokens: int) -> Fraction:
        """Milliseconds for that length, in exact arithmetic: sums of it stand in exact proportions.

        Raises:
            AnalysisError: the curve has none there, because it is not positive.
        """
        found = _value([Fraction(one) for one in self.coefficients], num_tokens)
        if found <= 0:
            raise AnalysisError(f"t(n) = {self} is {float(found):.4g} at n = {num_tokens}: no prefill takes that")
        return found

    def __str__(self) -> str:
        powers = ("", "·n", "·n²")
        terms = [f"{one:.4g}{power}" for one, power in zip(self.coefficients, powers, strict=False)]
        return " + ".join(terms).replace("+ -", "- ") + " ms"


PAPER = Curve((16.17, 0.0127))
"""arXiv 2608.15939's, fitted there to n ≤ 960 on its own machine."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A curve and how good it is.

    Attributes:
        r2: share of the variance that it explains; None where nothing varies.
        errors_ms: root mean square error at a length that the fit has not seen, of the line and of the parabola; None
            where too few lengths are there to leave one out.
        lengths: the lengths measured, ascending.
        num_points: the prefills measured.
    """

    curve: Curve
    r2: float | None
    errors_ms: tuple[float | None, float | None]
    lengths: tuple[int, ...]
    num_points: int


def fit(points: Sequence[Point]) -> Fit:
    """Least squares; the parabola only where its error at held-out lengths is the smaller one.

    Raises:
        AnalysisError: fewer than two lengths.
    """
    lengths = tuple(sorted({point.num_tokens for point in points}))
    if len(lengths) < 2:
        raise AnalysisError(f"t(n) needs prefills of at least two lengths, there is {len(lengths)}")
    errors = (_held_out(points, lengths, 1), _held_out(points, lengths, 2))
    is_parabola = errors[0] is not None and errors[1] is not None and errors[1] < errors[0]
    exact = _least_squares(points, 2 if is_parabola else 1)
    curve = Curve(tuple(map(float, exact)))
    return Fit(curve, _r2(points, exact), errors, lengths, len(points))


def _held_out(points: Sequence[Point], lengths: Sequence[int], degree: int) -> float | None:
    """Leave one length out after the other: its repeats would give it away to each other."""
    if len(lengths) - 1 <= degree:
        return None
    total = Fraction(0)
    for length in lengths:
        curve = _least_squares([point for point in points if point.num_tokens != length], degree)
        total += _residual([point for point in points if point.num_tokens == length], curve)
    return math.sqrt(total / len(points))


def _r2(points: Sequence[Point], curve: Sequence[Fraction]) -> float | None:
    mean = sum((Fraction(point.ms) for point in points), Fraction(0)) / len(points)
    spread = _residual(points, [mean])
    return float(1 - _residual(points, curve) / spread) if spread else None


def _residual(points: Sequence[Point], curve: Sequence[Fraction]) -> Fraction:
    return sum(((Fraction(ms) - _value(curve, n)) ** 2 for n, ms in points), Fraction(0))


def _value(curve: Sequence[Fraction], num_tokens: int) -> Fraction:
    return sum((one * num_tokens**power for power, one in enumerate(curve)), Fraction(0))


def _least_squares(points: Sequence[Point], degree: int) -> list[Fraction]:
    """The normal equations, solved in fractions: no rounding, so no conditioning to worry about."""
    size = range(degree + 1)
    moments = [Fraction(sum(n**power for n, _ in points)) for power in range(2 * degree + 1)]
    rows = [
        [*(moments[row + column] for column in size), sum((n**row * Fraction(ms) for n, ms in points), Fraction(0))]
        for row in size
    ]
    for pivot in size:
        # More lengths than coefficients: the matrix is positive definite, and no pivot is 0.
        rows[pivot] = [value / rows[pivot][pivot] for value in rows[pivot]]
        for other in size:
            if other != pivot:
                factor = rows[other][pivot]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[pivot], strict=True)]
    return [row[-1] for row in rows]
