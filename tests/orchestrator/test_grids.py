"""The grids of the repository are what their first lines say, and `full` is all of them."""

from __future__ import annotations

import math
import re
from functools import cache

import pytest

from orchestrator import config
from orchestrator.config_sources import CONF
from orchestrator.grid import Grid
from tests.orchestrator.unions import laid_out

README = CONF.parent / "README.md"
GRIDS = sorted(path.stem for path in (CONF / "grid").glob("*.yaml"))
PRODUCT = re.compile(r"\d+[^×.:,()\d]*(?:\([^)]*\) )?(?:× \d+[^×.:,()\d]*)+")


@cache
def filed(grid: str) -> Grid:
    """The grid as its file has it."""
    return laid_out(config.load([f"+grid={grid}"]))


def said(grid: str) -> str:
    """The comment at a grid's top, as one line."""
    lines = (CONF / "grid" / f"{grid}.yaml").read_text().splitlines()[1:]
    comment = [line.removeprefix("#").strip() for line in lines[: next(i for i, x in enumerate(lines) if x[0] != "#")]]
    return " ".join(comment)


@pytest.mark.parametrize("grid", [name for name in GRIDS if name != "full"])
def test_a_grid_has_the_size_that_its_comment_says(grid: str) -> None:
    (product,) = PRODUCT.findall(said(grid))
    cells = filed(grid).cells
    assert sum(cell.num_draws for cell in cells) == math.prod(map(int, re.findall(r"\d+", product)))


@pytest.mark.parametrize("grid", GRIDS)
def test_the_readme_shows_the_grid_with_its_size(grid: str) -> None:
    (shown,) = re.findall(rf"^\| `\+grid={grid}` \| (\d+) \|", README.read_text(), re.MULTILINE)
    assert sum(cell.num_draws for cell in filed(grid).cells) == int(shown)


@pytest.mark.parametrize("grid", GRIDS)
def test_every_exclusion_of_a_grid_leaves_something_out(grid: str) -> None:
    assert all(one.num_cells for one in filed(grid).excluded)


def test_full_is_every_grid_but_the_smoke_test() -> None:
    """What it cannot hold it names, with the reason."""
    run = config.load(["+grid=full"]).run
    named = " ".join(one.what for one in run.not_run)
    assert {name for name in GRIDS if name not in run.parts and f"+grid={name}" not in named} == {"full", "smoke"}


def test_every_part_of_full_has_cells_on_the_embedded_model_alone() -> None:
    composed = config.load(["+grid=full", "model=smollm2-135m"])
    cells = laid_out(composed).cells
    assert {part for cell in cells for part in cell.parts} == set(composed.run.parts)
    assert {cell.model for cell in cells} == {"smollm2-135m"}
    assert len({cell.cell_id for cell in cells}) == len(cells)
