"""The summary of a census of many settings: a line each, so that hundreds of cells stay one readable table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from analysis.terminal import grid, plain, share
from analysis.views import literal

if TYPE_CHECKING:
    from rich.table import Table

Row = dict[str, Any]
BESIDE = ("stale", "text_present")
"""Arms with a column of their own; of the others only what flips is named."""
REFERENCE = "cold"
"""The arm that decides about competence: each of its trials is one episode."""


def summary(settings: Sequence[Row], rows: Sequence[Row], names: Sequence[str], arms: Sequence[str]) -> Table:
    """A line per setting, over all its models.

    Args:
        settings: the settings, as rows of `names` alone.
        rows: rows of `census`.
        names: what makes a setting; those that have one value in all of them have no column.
        arms: the arms, in the order in which they are named.
    """
    shown = varying(settings, names)
    lines = []
    for setting in settings:
        here = [row for row in rows if all(row[name] == setting[name] for name in names)]
        lines.append(
            [
                *(plain(setting[name]) for name in shown),
                *(_flips(here, arm) for arm in BESIDE),
                _others(here, [arm for arm in arms if arm not in BESIDE]),
                share(*_sums(_of(here, REFERENCE), "num_competent", "num_competence_known")),
                share(*_sums(here, "done", "planned")),
            ]
        )
    header = [*shown, *(arm.replace("_", "\n") for arm in BESIDE), "other arms", "compe-\ntent", "done"]
    right = [len(shown), len(shown) + 1, len(header) - 2, len(header) - 1]
    title = f"Flips of the judged attack trials, all models, in each of {len(settings)} settings"
    return grid(header, lines, title=title, right=right, folded=[len(shown) + len(BESIDE)])


def varying(settings: Sequence[Row], names: Iterable[str]) -> list[str]:
    """The names under which the settings differ."""
    return [name for name in names if len({setting[name] for setting in settings}) > 1]


def condition(setting: Row, names: Iterable[str]) -> str:
    """SQL that finds a setting among others."""
    return " and ".join(f"{name} = {_literal(setting[name])}" for name in names if setting[name] is not None)


def _flips(rows: Sequence[Row], arm: str) -> str:
    return share(*_sums(_of(rows, arm), "num_flips", "num_judged"))


def _others(rows: Sequence[Row], arms: Sequence[str]) -> str:
    """`position_control 2/9; 4 more 0/36`: the arms that flip, then how many never do."""
    judged = {arm: _sums(_of(rows, arm), "num_flips", "num_judged") for arm in arms}
    said = [f"{plain(arm)} {share(k, n)}" for arm, (k, n) in judged.items() if k]
    never = [n for k, n in judged.values() if n and not k]
    if never:
        said.append(f"{len(never)} {'more' if said else 'arms'} {share(0, sum(never))}")
    return "; ".join(said) or share(0, 0)


def _of(rows: Sequence[Row], arm: str) -> list[Row]:
    return [row for row in rows if row["arm"] == arm]


def _sums(rows: Sequence[Row], *names: str) -> list[int]:
    return [sum(row[name] for row in rows) for name in names]


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else literal(str(value))
