"""The views as files: `sql/<stage>/<name>.sql`, one a file, the first line saying its grain and its question.

Staging files alone name Parquet, as `read_parquet($trials, …)`. `$trials`, `$plans`, `$runs` and `$missing` become the
quoted absolute glob of that part of the store; nothing else in a file is ever substituted.
"""

from __future__ import annotations

import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

SQL = Path(__file__).resolve().parent.parent / "sql"
STAGES = ("staging", "marts", "checks")
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
    """Every view, each after those it reads."""
    found = {view.name: view for stage in STAGES for view in _stage(stage)}
    reads = {name: sorted(_read_by(view) & found.keys()) for name, view in sorted(found.items())}
    return tuple(found[name] for name in TopologicalSorter(reads).static_order())


def needed(query: str) -> list[View]:
    """The views that a query names, and those that they read, each after those it reads."""
    wanted = set(re.findall(r"\w+", query.lower()))
    for view in reversed(views()):
        if view.name in wanted:
            wanted |= _read_by(view)
    return [view for view in views() if view.name in wanted]


def names(stage: str | None = None) -> list[str]:
    """Names of the views, of one stage or of all."""
    return sorted(view.name for view in views() if stage in (None, view.stage))


def over(view: View, root: Path) -> str:
    """The view's SQL over one store."""
    if view.stage != "staging":
        return view.sql
    return re.sub(r"\$(\w+)", lambda place: literal(_glob(root, GLOBS[place[1]])), view.sql)


def literal(text: str) -> str:
    """A text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: Path) -> str:
    """A path as a glob that matches only itself: each metacharacter in a class of its own."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def _glob(root: Path, folders: tuple[str, ...]) -> str:
    return "/".join((pattern(root), *folders, "part-*.parquet"))


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
