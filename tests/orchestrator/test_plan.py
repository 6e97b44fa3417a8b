"""Resume is planned − recorded, by trial; nothing recorded is run again unless asked."""

from __future__ import annotations

import itertools

import pytest

from orchestrator import config
from orchestrator.cells import Cells
from orchestrator.grid import expand, identify
from orchestrator.plan import Plan, Planned, State, known, plan_id
from tests.planned import blocks, planned, records


@pytest.fixture(scope="module")
def cells() -> Cells:
    composed = config.load(["model=[scripted,random-llama]"])
    return expand(composed, {model.name: identify(model, model.name, None) for model in composed.models})


def to_run(entries: Plan) -> list[Planned]:
    return [entry for entry in entries if entry.state is State.RUN]


def test_an_empty_store_means_every_trial(cells: Cells) -> None:
    assert len(to_run(planned(cells))) == 216


def test_what_is_recorded_is_not_run_again_whatever_its_status(cells: Cells) -> None:
    statuses = itertools.cycle(("done", "invalid", "unsupported", "error"))
    recorded = [(cell.cell_id, 0, status, 0) for cell, status in zip(cells, statuses, strict=False)]
    assert not to_run(planned(cells, recorded))


def test_errors_are_run_again_on_request_as_the_next_generation(cells: Cells) -> None:
    """MARRVEL#315: resume and retry are two verbs."""
    recorded = [(cells[0].cell_id, 0, "error", 2), (cells[1].cell_id, 0, "done", 0)]
    again = to_run(planned(cells[:2], recorded, retry=True))
    assert [(entry.cell, entry.generation) for entry in again] == [(cells[0], 3)]


def test_the_best_status_of_several_records_counts(cells: Cells) -> None:
    """inspect#4933: an attempt never shadows an older result."""
    a, b, other = (cell.cell_id for cell in cells[:3])
    rows = [(a, 0, "error", 1), (a, 0, "done", 0), (b, 0, "error", 0), (b, 0, "unsupported", 1), (other, 7, "done", 0)]
    for batches in ([rows], [[row] for row in rows], [[row] for row in reversed(rows)]):
        found = known(cells[:3], map(records, batches))
        assert [found.names[at] for at in found.status[:2]] == ["done", "unsupported"]
        assert found.generation.tolist() == [1, 1, -1]
        assert found.is_recorded.tolist() == [True, True, False]


def test_a_blocked_model_stops_no_other(cells: Cells) -> None:
    entries = planned(cells, blocked={"random-llama": "no weights"})
    assert {entry.cell.model for entry in to_run(entries)} == {"scripted"}
    assert {entry.blocked for entry in entries if entry.state is State.BLOCKED} == {"no weights"}


def test_blocks_hold_whole_episodes_of_one_model_and_every_trial_once(cells: Cells) -> None:
    entries = planned(cells)
    found = blocks(entries, 4)
    trials = [t.cell_id for model in found.values() for block in model for work in block.works for t in work.trials]
    assert sorted(trials) == sorted(cell.cell_id for cell in cells)
    for model, of_model in found.items():
        for block in of_model:
            assert block.model == model
            assert len(block.works) <= 4
            assert all(len(work.trials) == 6 for work in block.works)


def test_a_block_that_is_cut_alike_has_the_same_name_and_another_generation_another(cells: Cells) -> None:
    first, second = (blocks(planned(cells[:6]), 1)["scripted"][0].name for _ in range(2))
    errors = [(cell.cell_id, 0, "error", 0) for cell in cells[:6]]
    third = blocks(planned(cells[:6], errors, retry=True), 1)["scripted"][0].name
    assert first == second != third


def test_the_plan_id_follows_cells_selection_and_reasons(cells: Cells) -> None:
    variants = [planned(cells), planned(cells[:-1]), planned(cells, blocked={"scripted": "x"})]
    assert len({plan_id(entries) for entries in variants}) == 3
    done = [(cells[0].cell_id, 0, "done", 0)]
    assert plan_id(planned(cells, done)) == plan_id(planned(cells))
