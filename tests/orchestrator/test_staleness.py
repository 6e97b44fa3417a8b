"""`mode=plan` says which part of a stored result's identity no longer holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator import config
from orchestrator.cells import Cell
from orchestrator.grid import expand, identify
from orchestrator.staleness import Stored, reasons
from workers.episode import Episode
from workers.identity import Identity
from workers.studies.rollback import STUDY

EFFECT = "study.texts.effects.send_message"


def grid(*overrides: str, weights: str = "w") -> tuple[list[Cell], dict[str, str]]:
    composed = config.load(["model=scripted", *overrides])
    models = {model.name: identify(model, weights, None) for model in composed.models}
    return list(expand(composed, models)), {name: model.text for name, model in models.items()}


def stored(cells: list[Cell], texts: dict[str, str]) -> list[Stored]:
    return [Stored(c.model, c.arm, c.identity.text, texts[c.model], c.episode.text) for c in cells]


@pytest.mark.parametrize(
    ("override", "weights", "expected"),
    [
        (
            f"{EFFECT}.carriers.neutral=Once {{target}} had it.",
            "w",
            {"the episode changed: branch, carriers": 36},
        ),
        (f"{EFFECT}.finalize=Now.", "w", {"the episode changed: finalize": 108}),
        ("name=other", "v", {"the model changed: weights w → v": 108}),
        ("study.decode.max_new_tokens=9", "w", None),
    ],
)
def test_the_changed_part_is_named(override: str, weights: str, expected: dict[str, int] | None) -> None:
    """lmms-eval#1255: an id that follows the commit renews a grid for an edit of a note."""
    found = reasons(*_against(override, weights))
    if expected is None:
        (reason,) = found
        assert reason.startswith("decode changed")
        assert '"max_new_tokens":9' in reason
    else:
        assert dict(found) == expected


def _against(override: str, weights: str) -> tuple[list[Cell], list[Stored], dict[str, str]]:
    old = stored(*grid())
    new, texts = grid(override, weights=weights)
    known = {row.identity for row in old}
    return [cell for cell in new if cell.identity.text not in known], old, texts


def test_a_cell_that_never_ran_is_not_stale() -> None:
    cells, texts = grid()
    assert not reasons(cells, [], texts)


def test_a_result_of_before_an_axis_is_told_from_one_of_another_level() -> None:
    cells, texts = grid()
    older = [
        row._replace(episode=_without_content(row.episode), identity=_other(row.identity))
        for row in stored(cells, texts)
    ]
    found = reasons(cells, older, texts, STUDY.before)
    assert set(found.values()) == {len(cells)}
    assert not reasons(cells, older, texts, {"content": "somebody's"})


def _without_content(episode: str) -> str:
    found = Episode.from_text(episode)
    return replace(found, axes={name: level for name, level in found.axes.items() if name != "content"}).text


def _other(identity: str) -> str:
    return Identity.from_text(identity)._replace(study="rollback/1").text
