"""A store that an earlier version filled is taken up where it ended: ids are what they were, in columns too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from orchestrator import config, grid
from orchestrator.cells import Cells
from orchestrator.config import Composed
from orchestrator.grid import expand, identify
from orchestrator.plan import plan_id
from tests.planned import planned
from workers import arms
from workers.identity import IDENTITY_VERSION, Identity, digest

LIBRARIES = "transformers 5.24, torch 2.13"
OVERRIDES = [["+grid=full"], ["+grid=stochastic"], ["+grid=cost"], ["+grid=agentdojo"]]


def laid_out(composed: Composed) -> Cells:
    return expand(composed, {model.name: identify(model, model.name, None) for model in composed.models})


def by_the_book(composed: Composed) -> Iterator[tuple[str, str]]:
    """(cell_id, episode_id) of every cell before exclusions, one at a time, as `workers.identity` defines them."""
    for part in composed.parts:
        for model in part.models:
            weights = identify(model, model.name, None).digest
            for episode in part.spec.episodes(model):
                decodes = part.spec.decode.each(model.max_new_tokens)
                for arm, (decode, _) in product(part.spec.arms, decodes):
                    identity = Identity(
                        version=IDENTITY_VERSION,
                        study=f"{composed.study.name}/{composed.study.version}",
                        model=weights,
                        episode=episode.digest,
                        arm=f"{arm}/{arms.get(arm).version}",
                        decode=decode.text,
                        libraries=LIBRARIES,
                    )
                    yield identity.cell_id, digest(f"{weights}\x1f{episode.digest}")


@pytest.fixture(autouse=True)
def _same_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids hold the versions of what computes; these are those of the records below."""
    monkeypatch.setattr(grid, "libraries", lambda: LIBRARIES)


@pytest.mark.parametrize("overrides", OVERRIDES, ids=str)
def test_ids_in_columns_are_the_ids_of_cells_one_by_one(overrides: list[str]) -> None:
    composed = config.load(overrides)
    expected = dict(by_the_book(composed))
    cells = laid_out(composed)
    found = [(cell.cell_id, cell.episode_id) for cell in cells]
    assert len(dict(found)) == len(found)
    assert all(expected[cell_id] == episode_id for cell_id, episode_id in found)
    excluded = bool(composed.run.exclude or any(part.run.exclude for part in composed.parts))
    assert excluded or len(expected) == len(found)
    assert all(cell.identity.cell_id == cell.cell_id for cell in cells[:: max(1, len(cells) // 100)])


def test_the_cells_of_the_full_grid_are_those_that_earlier_versions_recorded() -> None:
    """A compatibility claim: the digests were taken with the code from before grids were columns.

    Whoever changes a text of the grid, the version of an arm or the study on purpose makes its cells new, and takes
    the digests anew; whoever did not mean to has found out here, before a store is run again.
    """
    cells = laid_out(config.load(["+grid=full"]))
    said = "\n".join(f"{cell.cell_id} {cell.episode_id} {cell.num_draws} {','.join(cell.parts)}" for cell in cells)
    assert digest(said) == "6556ffc1ab500c6b05950073432233ab"
    assert plan_id(planned(cells)) == "2d7a81cd455a8d90bef44eca7edd887d"
