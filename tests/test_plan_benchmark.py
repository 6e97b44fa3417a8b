"""The benchmark of planning: its grids are real, its stores hold all of them, its table is whole; nothing is timed."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks import plan as benchmark
from workers.store import Store


@pytest.mark.parametrize("num_cells", [1, 300, 10_000])
def test_a_grid_has_at_least_the_cells_that_were_asked_for(num_cells: int) -> None:
    grid = benchmark.composed(num_cells)
    num_episodes = sum(len(list(grid.spec.episodes(model))) for model in grid.models)
    assert num_cells <= num_episodes * len(grid.spec.arms) <= max(12 * num_cells, 22)


def test_more_cells_than_there_are_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--step", "measure", "--store", "nowhere", "--sizes", str(10**9)]) == 1
    assert "there are at most" in capsys.readouterr().err


def test_nothing_of_a_filled_store_is_to_run_and_everything_of_an_empty_one(tmp_path: Path) -> None:
    benchmark.fill(Store(tmp_path / "full"), 600)
    found = benchmark.measure(Store(tmp_path / "full"), 600)
    assert found.num_to_run == 0
    assert benchmark.measure(Store(tmp_path / "empty"), 600).num_to_run == found.num_cells >= 600
    assert len(list((tmp_path / "full" / "trials" / "rollback").glob("part-0*"))) > 1


def test_the_table_has_a_row_a_size_and_says_where_it_was_measured() -> None:
    rounds = [benchmark.Round(100, 1.0, 1.0, 2.0, 90.0, 0), benchmark.Round(100, 2.0, 1.0, 3.0, 80.0, 0)]
    larger = [benchmark.Round(1000, 15.0, 10.0, 25.0, 95.0, 0)]
    lines = list(benchmark.report({100: rounds, 1000: larger}))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert {len(row) for row in rows} == {9}
    assert [row[0] for row in rows[2:]] == ["100", "1,000"]
    assert rows[2][4] == "2.5 (2-3)"
    assert "power 1.00" in "\n".join(lines)
    assert "Python" in lines[-1]


def test_the_slope_is_the_power() -> None:
    assert benchmark.slope([(n, 3 * n**2) for n in (1.0, 10.0, 100.0)]) == pytest.approx(2)


def test_the_plot_is_svg_with_a_point_a_size() -> None:
    root = ElementTree.fromstring(benchmark.drawn([(1e4, 0.2), (1e5, 1.1), (1e6, 9.0)]))
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 3


@pytest.mark.parametrize(
    ("words", "said"), [(["--sizes", "0"], "--sizes 0"), (["--rounds", "0"], "at least 1"), (["--sise", "1"], "--sise")]
)
def test_a_wrong_command_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(words) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
