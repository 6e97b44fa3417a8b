"""A cell's id follows what was asked and nothing else; selections keep whole grids honest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from orchestrator import config
from orchestrator.cells import Cell, Cells
from orchestrator.grid import expand, identify
from workers.episode import Episode
from workers.errors import ConfigError
from workers.identity import Identity
from workers.spec import ModelSpec

EFFECT = "study.texts.effects.send_message"


def cells(*overrides: str, weights: str = "w") -> Cells:
    composed = config.load(["model=scripted", *overrides])
    models = {model.name: identify(model, weights, None) for model in composed.models}
    return expand(composed, models)


def ids(found: Iterable[Cell]) -> set[str]:
    return {cell.cell_id for cell in found}


def test_the_default_grid_is_the_full_product() -> None:
    found = cells()
    assert len(found) == len(ids(found)) == 3 * 3 * 2 * 6
    assert len({cell.episode_id for cell in found}) == 18
    levels = {(c.episode.axes["vehicle"], c.episode.axes["strength"], c.episode.axes["kind"], c.arm) for c in found}
    assert len(levels) == 108


def test_the_id_is_the_same_before_a_run_and_from_the_stored_texts() -> None:
    """inspect#5296: compute the key twice, from config and from the stored row."""
    for cell in cells():
        stored = Identity.from_text(cell.identity.text)
        assert stored.cell_id == cell.cell_id
        assert Episode.from_text(cell.episode.text).digest == stored.episode


@pytest.mark.parametrize(
    "override",
    [
        "executor=inline",
        "store.root=/somewhere/else",
        "tracking=off",
        "block_episodes=7",
        "isolation=strict",
        "name=other",
        "retry=error",
    ],
)
def test_how_it_is_run_is_not_part_of_the_id(override: str) -> None:
    """inspect#3014: every field is identity or it is not; these are not."""
    assert ids(cells(override)) == ids(cells())


@pytest.mark.parametrize(
    "override",
    ["study.decode.max_new_tokens=25", f"{EFFECT}.task=Another task", f"{EFFECT}.finalize=Other words"],
)
def test_what_every_episode_reads_is_part_of_every_id(override: str) -> None:
    assert not ids(cells(override)) & ids(cells())


def test_other_weights_share_no_cell() -> None:
    """lm-evaluation-harness#2715: a cache keyed by request alone scored one model with another's answers.

    lm-evaluation-harness#4065, #4064.
    """
    assert not ids(cells(weights="v")) & ids(cells())


def test_a_template_option_that_asks_for_nothing_is_no_part_of_the_id() -> None:
    (model,) = config.load(["model=scripted"]).models
    spelled_out = {"system": "keep", "acknowledgement": None, "template_arguments": {}}
    explicit = ModelSpec.model_validate(model.model_dump() | spelled_out)
    assert identify(explicit, "w", None) == identify(model, "w", None)
    assert not set(json.loads(identify(model, "w", None).text)) & set(spelled_out)


@pytest.mark.parametrize(
    "option",
    [{"system": "fold"}, {"acknowledgement": "Noted."}, {"template_arguments": {"enable_thinking": False}}],
)
def test_a_template_option_that_changes_the_render_renews_every_cell_and_is_said(option: dict[str, Any]) -> None:
    (model,) = config.load(["model=scripted"]).models
    before, after = (identify(one, "w", None) for one in (model, model.model_copy(update=option)))
    assert before.digest != after.digest
    assert option.items() <= json.loads(after.text).items()


def test_editing_one_carrier_renews_exactly_its_strength() -> None:
    before, after = cells(), cells(f"{EFFECT}.carriers.neutral=Last month {{target}} had it.")
    kept = ids(before) & ids(after)
    assert {c.episode.axes["strength"] for c in before if c.cell_id not in kept} == {"neutral"}
    assert len(kept) == 108 - 36


def test_adding_an_arm_or_reordering_levels_renews_nothing() -> None:
    """hydra#1407, hydra#3328: a sweep that goes by job numbers cannot be taken up again; flow#54: axes are identity."""
    fewer = cells("study.arms=[cold,stale]")
    turned = cells("study.levels.vehicle=[user_turn,tool_return,retrieved_document]")
    assert ids(fewer) < ids(cells())
    assert ids(turned) == ids(cells())


def test_a_matched_control_differs_from_its_attack_in_the_target_alone() -> None:
    pairs: dict[tuple[str, str], dict[str, Episode]] = {}
    for cell in cells():
        axes = cell.episode.axes
        pairs.setdefault((axes["vehicle"], axes["strength"]), {})[axes["kind"]] = cell.episode
    for pair in pairs.values():
        attack, control = pair["attack"], pair["control"]
        assert attack.branch[0].text.replace("red-canary", "finance-desk") == control.branch[0].text
        assert "red-canary" not in control.branch[0].text
        assert attack.carriers == control.carriers
        assert attack.committed == control.committed


def test_neutral_holds_no_verb_of_command_or_recommendation() -> None:
    commands = {"send", "deliver", "use", "should", "must", "please", "prefer", "recommend", "route", "forward"}
    texts = [c.episode.branch[0].text for c in cells() if c.episode.axes["strength"] == "neutral"]
    for text in texts:
        assert not commands & set(text.lower().replace(",", " ").replace(".", " ").split())


def test_a_selection_leaves_the_rest_of_the_grid_in_the_plan() -> None:
    found = cells("where=arm == 'stale' and strength == 'neutral'", "limit=4")
    assert len(found) == 108
    assert sum(cell.is_selected for cell in found) == 4


def test_only_takes_ids_or_their_beginnings() -> None:
    wanted = cells()[7].cell_id
    (chosen,) = (cell for cell in cells(f"only={wanted[:12]}") if cell.is_selected)
    assert chosen.cell_id == wanted


@pytest.mark.parametrize("override", ["only=zzzz", "where=arm == 'nobody'"])
def test_a_selection_of_nothing_is_an_error(override: str) -> None:
    with pytest.raises(ConfigError):
        cells(override)


def test_an_ambiguous_beginning_is_an_error() -> None:
    with pytest.raises(ConfigError, match="108 cells of this grid have an id"):
        cells("only=''")


def test_a_level_that_another_grid_has_is_no_level_of_this_one() -> None:
    with pytest.raises(ConfigError, match="no arm 'checkpoint'"):
        cells("study.arms=[stale,cold]", "where=arm != 'checkpoint'")
