"""Two stores side by side, joined on what makes a trial of one the trial of the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from analysis.errors import AnalysisError
from analysis.warehouse import connect

if TYPE_CHECKING:
    from analysis.warehouse import Warehouse


class Join(NamedTuple):
    """What two trials have in common that answer one question."""

    column: str
    """Of the view `questions`."""
    words: str
    differs: tuple[str, ...]
    """Sealed columns that may differ, since they say whose the trial is and not what came of it."""


_IDS = ("cell_id", "episode_id", "identity", "model_identity")
BY = {
    "cell": Join("cell_id", "cell and draw", ()),
    "model": Join("asked_of_model", "model, texts, arm, decode settings and draw", _IDS),
    "texts": Join("asked", "texts, arm, decode settings and draw, whatever the model", (*_IDS, "model")),
}


@contextmanager
def opened(a: str, b: str) -> Iterator[tuple[Warehouse, Warehouse]]:
    """Both stores; pairs are asked of the first.

    Raises:
        AnalysisError: one of them is none.
    """
    with connect(b) as theirs, connect(a, beside=[theirs.root]) as ours:
        yield ours, theirs


def chosen(ours: Warehouse, theirs: Warehouse, by: str | None) -> str:
    """What to join on: what is asked for, or the cell where the two have any in common, or else the model."""
    if by is not None:
        return by
    cells = "select cell_id, draw from trials"
    ours.hold_pair(ours.whole(cells), theirs.whole(cells))
    (found,) = ours.of_pair("select count(*) as num_common from a semi join b using (cell_id, draw)").to_pylist()
    return "cell" if found["num_common"] else "model"


def hold(ours: Warehouse, theirs: Warehouse, a: str, b: str, by: str) -> None:
    """Hold two sides with the columns `question` and `draw`.

    Raises:
        AnalysisError: a store asks one question in several ways.
    """
    ours.hold_pair(ours.whole(a), theirs.whole(b))
    for side, root in (("a", ours.root), ("b", theirs.root)):
        (found,) = ours.of_pair(
            f"select count(*) as num from (select 1 from {side} group by question, draw having count(*) > 1)"
        ).to_pylist()
        if found["num"]:
            raise AnalysisError(
                f"{root} has {found['num']} questions in several ways (versions of a library, an arm or a model): "
                f"joined by {BY[by].words} they cannot be told apart; --by cell, or keep each in a store of its own"
            )
