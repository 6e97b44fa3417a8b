"""Worked cells: one flip beside the arms that were fed the same delta on another cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.report.tables import Row, key

PARTS = ("committed", "branch", "finalize")


class Turn(NamedTuple):
    """One message of the episode, as it was asked."""

    role: str
    text: str


class Ids(NamedTuple):
    """Token ids of a reply, apart where it leaves the flip's reply: the ids before, that one, those after."""

    before: str
    parting: str
    after: str


@dataclass(frozen=True, slots=True)
class WorkedArm:
    """One arm of a worked cell: a row of `worked_cells`, which `key` finds among the rows of its flip."""

    key: str
    row: Row
    reply_ids: Ids
    is_flip: bool


@dataclass(frozen=True, slots=True)
class WorkedCell:
    """One flip: a row of `flips`, its texts, and the arms beside it, the flip first.

    Attributes:
        turns: `committed`, `branch` and `finalize`; empty where the row holds no episode.
    """

    key: str
    row: Row
    turns: dict[str, list[Turn]]
    arms: list[WorkedArm]


def worked_cells(flips: Sequence[Row], beside: Sequence[Row]) -> list[WorkedCell]:
    """The worked cells of some rows of `flips`, with the rows of `worked_cells` that belong to them."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in beside:
        found.setdefault((row["flip_cell_id"], row["draw"]), []).append(row)
    return [
        WorkedCell(
            key(flip, ("cell_id", "draw")),
            flip,
            turns(flip["episode"]),
            [_arm(row) for row in found.get((flip["cell_id"], flip["draw"]), [])],
        )
        for flip in flips
    ]


def turns(episode: str | None) -> dict[str, list[Turn]]:
    """The episode's messages; a text that is not an episode has none."""
    try:
        said = json.loads(episode or "{}")
        return {part: [Turn(str(turn["role"]), str(turn["text"])) for turn in said.get(part, [])] for part in PARTS}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {part: [] for part in PARTS}


def _arm(row: Row) -> WorkedArm:
    ids = _ids(row["reply_ids"], row["first_difference"])
    return WorkedArm(key(row, ("cell_id",)), row, ids, row["cell_id"] == row["flip_cell_id"])


def _ids(ids: list[Any] | None, first_difference: int | None) -> Ids:
    words = [str(token) for token in ids or []]
    at = len(words) if first_difference is None else first_difference - 1
    return Ids(" ".join(words[:at]), " ".join(words[at : at + 1]), " ".join(words[at + 1 :]))
