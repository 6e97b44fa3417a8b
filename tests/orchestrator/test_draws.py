"""A sampled cell has one trial a draw, a greedy cell one; more draws run only what is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import config
from orchestrator.blocks import MOST_TRIALS
from orchestrator.cells import Cells
from orchestrator.plan import Plan, State
from orchestrator.staleness import Stored, reasons
from tests.orchestrator.unions import grid, write_all
from tests.planned import blocks, planned
from workers.block import Work
from workers.errors import ConfigError


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("conf"))


def works(entries: Plan, block_episodes: int = 2) -> list[Work]:
    return [work for block in blocks(entries, block_episodes)["scripted"] for work in block.works]


def test_draws_are_counted_for_sampled_cells_only(own: Path) -> None:
    draws: dict[str, list[int]] = {}
    cells = grid(own, "+grid=sampled").cells
    temperatures = {cell.cell_id: cell.temperature for cell in cells}
    for entry in planned(cells):
        draws.setdefault(entry.cell.cell_id, []).append(entry.draw)
    assert set(temperatures.values()) == {0.0, 0.3, 0.7}
    assert all(found == list(range(20 if temperatures[name] else 1)) for name, found in draws.items())


def test_each_temperature_is_a_cell_of_its_own(own: Path) -> None:
    cells = grid(own, "+grid=sampled").cells
    assert len({cell.cell_id for cell in cells}) == len(cells) == 3 * 18 * 2
    assert len({cell.episode_id for cell in cells}) == 18


def test_the_number_of_draws_is_not_part_of_the_id_and_the_seed_of_a_greedy_cell_neither(own: Path) -> None:
    once, more, other = (
        {cell.cell_id: cell.temperature for cell in grid(own, "+grid=sampled", *overrides).cells}
        for overrides in ((), ("study.decode.num_draws=50",), ("study.decode.seed=7",))
    )
    assert once == more
    assert {once[name] for name in once.keys() & other.keys()} == {0.0}


def test_fifty_draws_after_twenty_run_the_thirty_new_ones(own: Path) -> None:
    before = planned(grid(own, "+grid=sampled").cells)
    recorded = [(entry.cell.cell_id, entry.draw, "done", 0) for entry in before]
    cells = grid(own, "+grid=sampled", "study.decode.num_draws=50").cells
    to_run = [entry for entry in planned(cells, recorded) if entry.state is State.RUN]
    assert {entry.draw for entry in to_run} == set(range(20, 50))
    assert len(to_run) == 30 * 18 * 2 * 2


def test_a_cell_that_two_parts_draw_is_drawn_as_often_as_either_asks(own: Path) -> None:
    cells = grid(own, "parts=[few_draws,sampled]").cells
    assert {cell.num_draws for cell in cells if cell.parts == ("few_draws", "sampled")} == {20}


def test_an_episode_of_many_draws_is_cut_between_draws_with_all_its_arms_in_each(own: Path) -> None:
    cells = grid(own, "+grid=sampled", "study.levels.kind=[attack]").cells
    found = works(planned(cells))
    assert sum(len(work.trials) for work in found) == len(planned(cells))
    assert max(len(work.trials) for work in found) <= MOST_TRIALS
    for work in found:
        sampled = [(trial.arm, trial.draw) for trial in work.trials if trial.draw]
        assert {(arm, draw) for arm in ("stale", "cold") for _, draw in sampled} == set(sampled)


def test_each_trial_is_decoded_as_its_cell_says(own: Path) -> None:
    cells = grid(own, "+grid=sampled").cells
    temperatures = {cell.cell_id: cell.temperature for cell in cells}
    for work in works(planned(cells)):
        assert all(trial.decode.temperature == temperatures[trial.cell_id] for trial in work.trials)


def test_a_greedy_result_is_no_stale_form_of_a_sampled_one(own: Path) -> None:
    def stored(cells: Cells) -> list[Stored]:
        return [Stored(c.model, c.arm, c.identity.text, "{}", c.episode.text) for c in cells]

    greedy = grid(own, "model=scripted").cells
    sampled = grid(own, "+grid=few_draws").cells
    longer = grid(own, "+grid=few_draws", "study.decode.max_new_tokens=9").cells
    texts = {model.name: "{}" for model in config.load(["model=scripted"]).models}
    assert not reasons(sampled, stored(greedy), texts)
    assert set(reasons(longer, stored(sampled), texts).values()) == {36}


@pytest.mark.parametrize("temperature", ["1e-320", "0.0001", "[0,1e-9]"])
def test_a_temperature_so_low_that_logits_overflow_is_refused(own: Path, temperature: str) -> None:
    with pytest.raises(ConfigError, match=r"should be 0, which is greedy, or at least 0\.001"):
        grid(own, "model=scripted", f"study.decode.temperature={temperature}")


def test_a_negative_zero_is_zero(own: Path) -> None:
    plain, negative = (
        grid(own, "model=scripted", f"study.decode.temperature={level}").cells for level in ("0.0", "-0.0")
    )
    assert [cell.cell_id for cell in plain] == [cell.cell_id for cell in negative]


def test_the_seed_can_be_said_as_any_other_key(own: Path) -> None:
    cells = grid(own, "+grid=few_draws", "study.decode.seed=7").cells
    assert all('"seed":7' in cell.identity.decode for cell in cells)
