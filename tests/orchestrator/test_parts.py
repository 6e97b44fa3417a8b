"""A grid may be the union of others: each cell once, with the parts that ask for it; what is left out has a reason."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from orchestrator import config, ledger
from orchestrator.cells import Cells
from tests.orchestrator.unions import grid, laid_out, write, write_all
from tests.planned import blocks, planned
from workers import agentdojo
from workers.errors import ConfigError


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("conf"))


def refusal(folder: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        grid(folder, *overrides)
    line = str(caught.value)
    assert "\n" not in line
    return line


def ids(cells: Cells) -> set[str]:
    return {cell.cell_id for cell in cells}


def test_the_union_holds_each_cell_of_its_parts_once(own: Path) -> None:
    cells = grid(own, "+grid=both").cells
    assert len(cells) == len(ids(cells))
    assert ids(cells) == ids(grid(own, "+grid=narrow").cells) | ids(grid(own, "+grid=wide").cells)


def test_each_cell_knows_the_parts_that_ask_for_it(own: Path) -> None:
    alone = {name: ids(grid(own, f"+grid={name}").cells) for name in ("narrow", "wide")}
    for cell in grid(own, "+grid=both").cells:
        assert cell.parts == tuple(name for name, found in alone.items() if cell.cell_id in found)
    assert {cell.parts for cell in grid(own, "+grid=narrow").cells} == {()}


def test_the_arms_of_an_episode_stay_together_whichever_part_brings_them(own: Path) -> None:
    cells = grid(own, "+grid=both").cells
    runs = [episode for episode, _ in groupby(cell.episode_id for cell in cells)]
    assert len(runs) == len(set(runs))
    works = [work for block in blocks(planned(cells), 2)["scripted"] for work in block.works]
    arms = {work.episode.axes["strength"]: sorted(trial.arm for trial in work.trials) for work in works}
    assert arms == {"neutral": ["cold", "fresh", "stale"], "imperative": ["cold", "fresh"]}


def test_the_command_line_is_laid_over_every_part_and_over_the_whole(own: Path) -> None:
    found = grid(own, "+grid=both", "study.arms=[cold]", "model=random-llama", "where=strength == 'neutral'", "limit=2")
    assert {(cell.arm, cell.model) for cell in found.cells} == {("cold", "random-llama")}
    assert {cell.episode.axes["strength"] for cell in found.cells} == {"neutral", "imperative"}
    chosen = [cell for cell in found.cells if cell.is_selected]
    assert [cell.episode.axes["strength"] for cell in chosen] == ["neutral", "neutral"]


def test_a_level_of_any_part_may_be_asked_for(own: Path) -> None:
    assert sum(cell.is_selected for cell in grid(own, "+grid=both", "where=arm == 'fresh'").cells) == 6
    assert "no arm 'truncate'" in refusal(own, "+grid=both", "where=arm == 'truncate'")


def test_parts_may_be_named_on_the_command_line(own: Path) -> None:
    composed = config.load(["parts=[narrow,wide]", "name=mine"], own)
    assert composed.run.name == "mine"
    assert ids(laid_out(composed).cells) == ids(grid(own, "+grid=both").cells)


def test_a_part_may_have_other_texts(own: Path) -> None:
    found = grid(own, "parts=[narrow,other_words]").cells
    assert {("Beware." in cell.episode.committed[0].text, cell.parts) for cell in found} == {
        (False, ("narrow",)),
        (True, ("other_words",)),
    }


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["parts=[narow,wide]"], "grid narow: unknown grid 'narow', did you mean 'narrow'?"),
        (["parts=[narrow,narrow]"], "parts names 'narrow' twice"),
        (["parts=[narrow,both]"], "grid both: it has parts itself: name narrow, wide instead"),
        (["+grid=both", "study.arms=[stael]"], "did you mean 'stale'"),
        (["+grid=both", "study.levels.strength=[neutrl]"], "did you mean 'neutral'"),
    ],
)
def test_a_wrong_union_is_one_line(own: Path, overrides: list[str], said: str) -> None:
    assert said in refusal(own, *overrides)


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("selfish", "parts: [selfish]", "grid selfish: it has parts itself"),
        ("models", "parts: [narrow]\nmodels: [scripted]", "grid models: a grid with parts has no models of its own"),
        ("arms", "parts: [narrow]\nstudy: {arms: [stale]}", "grid arms: a grid with parts has no study of its own"),
        ("plain", "models: [scripted]\nisolation: strict", "a part of default cannot say isolation for itself"),
        ("typo", "models: [scripted]\nexclud: []", "grid typo: unknown key 'exclud', did you mean 'exclude'?"),
    ],
)
def test_a_file_that_cannot_be_or_have_a_part_is_one_line(tmp_path: Path, name: str, body: str, said: str) -> None:
    write(write_all(tmp_path), name, body)
    chosen = f"+grid={name}" if "parts" in body else f"parts=[narrow,{name}]"
    assert said in refusal(tmp_path, chosen)


def test_what_is_excluded_is_no_cell_and_is_counted_with_its_reason(own: Path) -> None:
    found = grid(own, "+grid=lean")
    assert {cell.episode.axes["kind"] for cell in found.cells} == {"attack"}
    assert [(one.part, one.why, one.num_cells) for one in found.excluded] == [("", "controls are elsewhere", 54)]
    assert len(grid(own, "+grid=lean", "exclude=[]").cells) == 108


def test_an_exclusion_of_a_part_leaves_the_other_parts_alone(own: Path) -> None:
    found = grid(own, "parts=[lean,few_draws]")
    assert Counter((cell.episode.axes["kind"], cell.parts) for cell in found.cells) == {
        ("attack", ("lean",)): 54,
        ("attack", ("few_draws",)): 18,
        ("control", ("few_draws",)): 18,
    }
    assert [one.part for one in found.excluded] == ["lean"]


def test_an_exclusion_of_the_whole_counts_each_cell_once(tmp_path: Path) -> None:
    write(write_all(tmp_path), "lean_both", "parts: [narrow, wide]\nexclude: [{where: arm == 'cold', why: no time}]")
    found = grid(tmp_path, "+grid=lean_both")
    assert {cell.arm for cell in found.cells} == {"stale", "fresh"}
    assert [(one.part, one.num_cells) for one in found.excluded] == [("", 6)]


def test_what_the_command_line_excludes_need_not_be_in_every_part(own: Path) -> None:
    found = grid(own, "+grid=both", "exclude=[{where: {strength: imperative}, why: no time}]")
    assert {cell.episode.axes["strength"] for cell in found.cells} == {"neutral"}
    assert [(one.part, one.num_cells) for one in found.excluded] == [("narrow", 0), ("wide", 6)]
    said = refusal(own, "+grid=both", "exclude=[{where: {strength: imperativ}, why: no time}]")
    assert said == ("grid narrow: exclude: where: this grid has no strength 'imperativ', did you mean 'imperative'?")


def test_two_exclusions_count_no_cell_twice(own: Path) -> None:
    found = grid(
        own, "exclude=[{where: \"kind == 'control'\", why: a}, {where: {arm: [cold, fresh]}, why: b}]", "model=scripted"
    )
    assert [(one.why, one.num_cells) for one in found.excluded] == [("a", 54), ("b", 18)]
    assert len(found.cells) == 108 - 54 - 18


def test_an_exclusion_may_name_what_the_command_line_took_away_but_not_what_no_file_has(tmp_path: Path) -> None:
    write(tmp_path, "mine", "models: [scripted]\nexclude: [{where: arm == 'fresh', why: x}]")
    write(tmp_path, "misspelt", "models: [scripted]\nexclude: [{where: arm == 'frsh', why: x}]")
    assert [one.num_cells for one in grid(tmp_path, "+grid=mine", "study.arms=[stale]").excluded] == [0]
    assert "no arm 'frsh', did you mean 'fresh'" in refusal(tmp_path, "+grid=misspelt")
    assert "no axis 'am'" in refusal(tmp_path, "+grid=mine", "study.arms=[stale]", "exclude=[{where: {am: x}, why: y}]")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("exclude=[{where: {kind: control}}]", "exclude.0.why is missing"),
        ("exclude=[{where: {kind: control}, why: ' '}]", "exclude.0.why"),
        ("not_run=[{what: all}]", "not_run.0.why is missing"),
        ("exclude=[{where: {kind: [attack, control]}, why: x}]", "every cell of the grid is excluded"),
    ],
)
def test_nothing_is_left_out_without_a_reason_nor_everything(own: Path, override: str, said: str) -> None:
    assert said in refusal(own, override)


def test_the_recorded_configuration_holds_every_part(own: Path) -> None:
    snapshot = json.loads(json.dumps(ledger.snapshot(config.load(["parts=[narrow,lean]"], own))))
    assert snapshot["study"]["narrow"]["study"]["arms"] == ["stale", "cold"]
    assert snapshot["study"]["lean"]["exclude"][0]["why"] == "controls are elsewhere"


def test_a_part_that_needs_what_is_not_installed_is_named_and_the_others_are_planned(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    agentdojo.goals.cache_clear()
    agentdojo.passages.cache_clear()
    found = grid(own, "parts=[narrow,agentdojo]")
    assert ids(found.cells) == ids(grid(own, "+grid=narrow").cells)
    ((part, why),) = found.unplanned
    assert (part, why) == ("agentdojo", "AgentDojo is not installed: pip install --no-deps agentdojo==0.1.35")
    assert why in refusal(own, "+grid=agentdojo")
    assert why in refusal(own, "parts=[agentdojo]")


def test_where_everything_is_installed_every_part_is_planned(own: Path) -> None:
    assert not grid(own, "+grid=both").unplanned
