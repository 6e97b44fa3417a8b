"""The benchmark of rewinding: its states are equal, its table is whole; nothing is timed here."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import rewind
from orchestrator import config
from workers import engine
from workers.engine import Engine, Handle
from workers.engine.null import NullEngine

SMALL = ["--lengths", "24,12", "--rounds", "2"]


def loaded(name: str) -> Engine:
    (spec,) = config.load([f"model={name}"]).models
    return engine.load(spec, num_threads=1)


@pytest.mark.parametrize(("name", "can_crop"), [("random-llama", True), ("random-jamba", False)])
def test_every_way_back_leads_to_the_same_state(name: str, can_crop: bool) -> None:
    lines = rewind.measure(loaded(name), [24, 12], 2)
    assert [line.num_tokens for line in lines] == [12, 24]
    for line in lines:
        assert line.are_equal
        assert {way: len(times) for way, times in line.ms.items()} == {
            "prefill": 2,
            "crop": 2 if can_crop else 0,
            "checkpoint": 2,
        }


class Careless(NullEngine):
    """Crops one token too few."""

    def crop(self, handle: Handle, length: int) -> Handle:
        return super().crop(handle, length + 1)


def test_a_way_back_that_keeps_a_token_is_found() -> None:
    (spec,) = config.load(["model=scripted"]).models
    lines = rewind.measure(Careless(spec), [12], 2)
    assert [line.are_equal for line in lines] == [False]
    assert rewind.table(lines)[1][-1] == "NO"


def test_the_table_has_a_row_a_length_and_the_machine_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewind.main(["--model", "random-llama", *SMALL]) == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows] == ["tokens", "---:", "12", "24"]
    assert {len(row) for row in rows} == {7}
    assert [row[-1] for row in rows[2:]] == ["yes", "yes"]
    assert "random-llama, full cache, cpu" in out
    assert "2 rounds" in out


def line(num_tokens: int, **ms: float | None) -> rewind.Line:
    times: dict[str, Any] = {way: [] if ms.get(way) is None else [ms[way]] for way in rewind.WAYS}
    return rewind.Line(num_tokens, times, are_equal=True)


def test_it_breaks_even_where_it_is_quicker_from_there_on() -> None:
    lines = [line(8, prefill=2, crop=1), line(16, prefill=2, crop=3), line(32, prefill=4, crop=3)]
    assert rewind.break_even(lines, "crop") == 32
    assert rewind.break_even(lines[:2], "crop") is None
    assert rewind.break_even(lines, "checkpoint") is None
    assert [one.ratio("crop") for one in lines[:1]] == [2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "random-lama"], "did you mean 'random-llama'"),
        (["--lengths", "0"], "--lengths 0"),
        (["--rounds", "0"], "at least 1"),
        (["--rouns", "1"], "--rouns"),
    ],
)
def test_a_wrong_command_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewind.main(words) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
