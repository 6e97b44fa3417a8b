"""Why a stored result no longer applies: the first part of its identity that differs from the planned cell's. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from orchestrator.cells import Cell
from workers.episode import Episode
from workers.identity import Identity


class Stored(NamedTuple):
    """A recorded trial's own account of what it was asked."""

    model: str
    arm: str
    identity: str
    model_identity: str
    episode: str


def reasons(
    to_run: Iterable[Cell],
    stored: Iterable[Stored],
    model_identities: Mapping[str, str],
    before: Mapping[str, Any] = MappingProxyType({}),
) -> Counter[str]:
    """Reason → cells to run although the store holds a result for the same model, arm, levels and temperature.

    The most recently stored result is compared.

    Args:
        stored: in the order of recording, without those that still answer a cell of the grid.
        before: axis → level of the rows that were recorded before there was that axis.
    """
    latest = {}
    for row in stored:
        episode = Episode.from_text(row.episode)
        latest[_place(row.model, row.arm, episode.study, {**before, **episode.axes}, _decode(row.identity))] = row
    found: Counter[str] = Counter()
    for cell in to_run if latest else ():
        study = cell.identity.study.partition("/")[0]
        known = latest.get(_place(cell.model, cell.arm, study, cell.axes, cell.identity.decode))
        if known is not None:
            found[_difference(cell, known, model_identities[cell.model])] += 1
    return found


_IMPLIED = frozenset(("carried",))
"""Differs only where `branch` does, and in each kind of episode in another way: two reasons of one change."""


def _place(model: str, arm: str, study: str, axes: Mapping[str, Any], decode: str) -> tuple[Any, ...]:
    return (model, arm, study, _temperature(decode), *sorted(axes.items()))


def _decode(identity: str) -> str:
    return Identity.from_text(identity).decode


@cache
def _temperature(decode: str) -> float:
    return float(json.loads(decode).get("temperature", 0.0))


def _difference(cell: Cell, row: Stored, model_identity: str) -> str:
    old, new = Identity.from_text(row.identity), cell.identity
    for name, before, after in zip(Identity._fields, old, new, strict=True):
        if before == after:
            continue
        if name == "model":
            return f"the model changed: {changed_keys(json.loads(row.model_identity), json.loads(model_identity))}"
        if name == "episode":
            before_fields, after_fields = json.loads(row.episode), json.loads(cell.episode.text)
            return f"the episode changed: {changed_keys(before_fields, after_fields)}"
        return f"{name} changed: {before} → {after}"
    return "the row was recorded under another id"


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What differs between two accounts, key by key, in one line."""
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key) and key not in _IMPLIED]
    return ", ".join(_change(key, before.get(key), after.get(key)) for key in keys)


def _change(key: str, before: Any, after: Any) -> str:
    short = isinstance(before, str) and isinstance(after, str) and len(before) + len(after) < 120
    return f"{key} {before} → {after}" if short else key
