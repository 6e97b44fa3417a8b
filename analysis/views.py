"""The views as files: `sql/<stage>/<name>.sql`, one a file, the first line saying its grain and its question.

Staging files alone name Parquet, as `read_parquet($trials, …)`. `$trials`, `$plans`, `$runs` and `$missing` become the
quoted absolute glob of that part of the store; nothing else in a file is ever substituted. `sql/pairs/` holds queries
over two sides, `a` and `b`, which whoever asks has to give.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from analysis.errors import AnalysisError

SQL = Path(__file__).resolve().parent.parent / "sql"
STAGES = ("staging", "marts", "checks")
PAIRS = ("pairs",)
GLOBS = {
    "trials": ("trials", "*"),
    "plans": ("plans",),
    "runs": ("runs",),
    "missing": ("missing",),
}


class View(NamedTuple):
    """One view."""

    name: str
    stage: str
    question: str
    """The file's first line: `One row per (…). Question?`"""
    sql: str


@cache
def views() -> tuple[View, ...]:
    """Every view over one store, each after those it reads."""
    return _ordered(STAGES)


@cache
def pairs() -> tuple[View, ...]:
    """Every query over two sides, each after those it reads."""
    return _ordered(PAIRS)


def needed(query: str, among: Sequence[View] | None = None) -> list[View]:
    """The views that a query names, and those that they read, each after those it reads.

    Args:
        among: those that may be meant, in such an order (None: the views over one store).
    """
    known = views() if among is None else among
    wanted = set(re.findall(r"\w+", query.lower()))
    for view in reversed(known):
        if view.name in wanted:
            wanted |= _read_by(view)
    return [view for view in known if view.name in wanted]


def names(stage: str | None = None) -> list[str]:
    """Names of the views, of one stage or of all."""
    return sorted(view.name for view in views() if stage in (None, view.stage))


def over(view: View, root: Path, without: Set[Path] = frozenset()) -> str:
    """The view's SQL over one store.

    Args:
        without: parts that are left out.

    Raises:
        AnalysisError: nothing is left of a table.
    """
    if view.stage != "staging":
        return view.sql
    return re.sub(r"\$(\w+)", lambda place: _files(root, GLOBS[place[1]], without), view.sql)


def literal(text: str) -> str:
    """A text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: Path) -> str:
    """A path as a glob that matches only itself: each metacharacter in a class of its own."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def parts(root: Path) -> list[Path]:
    """The committed parts of every table of a store, in order."""
    return sorted(path for folders in GLOBS.values() for path in _parts_of(root, folders))


def _parts_of(root: Path, folders: tuple[str, ...]) -> list[Path]:
    return sorted(root.glob("/".join((*folders, "part-*.parquet"))))


def _files(root: Path, folders: tuple[str, ...], without: Set[Path]) -> str:
    """A table's parts, for DuckDB: a glob, or a list where some are left out."""
    if not without:
        return literal(_glob(root, folders))
    kept = [literal(pattern(path)) for path in _parts_of(root, folders) if path not in without]
    if not kept:
        raise AnalysisError(f"no part of {root / folders[0]} can be read: `python -m orchestrator` makes one")
    return f"[{', '.join(kept)}]"


def _glob(root: Path, folders: tuple[str, ...]) -> str:
    return "/".join((pattern(root), *folders, "part-*.parquet"))


def _ordered(stages: tuple[str, ...]) -> tuple[View, ...]:
    found = {view.name: view for stage in stages for view in _stage(stage)}
    reads = {name: sorted(_read_by(view) & found.keys()) for name, view in sorted(found.items())}
    return tuple(found[name] for name in TopologicalSorter(reads).static_order())


def _stage(stage: str) -> list[View]:
    return [
        View(path.stem, stage, text.splitlines()[0].removeprefix("--").strip(), text)
        for path in sorted((SQL / stage).glob("*.sql"))
        if (text := path.read_text(encoding="utf-8"))
    ]


def _read_by(view: View) -> set[str]:
    """Every word of the view's SQL that may name another view; staging reads none."""
    if view.stage == "staging":
        return set()
    return set(re.findall(r"\w+", re.sub(r"--[^\n]*", "", view.sql))) - {view.name}
