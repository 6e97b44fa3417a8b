"""Errors planted in the batched path of a real model: none of them becomes an observation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from workers import engine as engines
from workers.block import Block, Work
from workers.engine import Engine
from workers.runner import BlockRunner
from workers.schema import CORE
from workers.spec import ModelSpec
from workers.studies import get

Row = dict[str, Any]
Error = Callable[[dict[str, Any], int], None]
STUDY = get("rollback")
SEALED = {column.name for column in (*CORE, *STUDY.columns) if column.is_sealed}
NUM_ARMS = 6


@pytest.fixture
def engine(tiny_spec: Callable[..., ModelSpec]) -> Engine:
    """A model of its own, with nothing proven yet."""
    return engines.load(tiny_spec("llama"), num_threads=1)


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'user_turn' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


def wrong_position(inputs: dict[str, Any], row: int) -> None:
    """One row's tokens stand elsewhere."""
    inputs["position_ids"] = inputs["position_ids"].clone()
    inputs["position_ids"][row] += 7


def neighbours_mask(inputs: dict[str, Any], row: int) -> None:
    """One row sees what its neighbour may see."""
    inputs["attention_mask"] = inputs["attention_mask"].clone()
    inputs["attention_mask"][row] = inputs["attention_mask"][row - 1]


@contextmanager
def planted(engine: Any, error: Error, row: int) -> Iterator[None]:
    """The error in every pass over so many rows; a pass over one state alone is right."""

    def spoil(_: Any, args: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if len(inputs["input_ids"]) > max(row, 1):
            error(inputs, row)
        return args, inputs

    hook = engine._model.register_forward_pre_hook(spoil, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def sealed(rows: list[list[Row]]) -> list[Row]:
    return [{name: value for name, value in row.items() if name in SEALED} for found in rows for row in found]


@pytest.mark.parametrize("error", [wrong_position, neighbours_mask])
def test_an_error_that_is_there_from_the_start_reaches_no_row(engine: Engine, work: Work, error: Error) -> None:
    """The batches are proven, and the shelf is held against a pass alone, before anything is believed."""
    expected = sealed(BlockRunner(engine, STUDY, "strict").run([work]).rows)
    with planted(engine, error, 1):
        found = BlockRunner(engine, STUDY, "class", decode_once=False).run([work])
    if found.stop:
        assert {row["status"] for row in found.rows[0]} == {"invalid"}
    else:
        assert sealed(found.rows) == expected
        assert {row["batch"] for row in found.rows[0]} == {"alone"}


@pytest.mark.parametrize("row", [*range(NUM_ARMS), 30, 63])
@pytest.mark.parametrize("error", [wrong_position, neighbours_mask])
def test_an_error_that_comes_later_is_met_whichever_row_is_wrong(
    engine: Engine, work: Work, error: Error, row: int
) -> None:
    runner = BlockRunner(engine, STUDY, "class", decode_once=False)
    BlockRunner(engine, STUDY, "class").run([work])
    with planted(engine, error, row):
        found = runner.run([work])
    assert found.stop.partition(":")[0] in ("batch_differs", "shelf_differs")
    assert {one["status"] for one in found.rows[0]} == {"invalid"}


def test_every_row_wrong_is_seen_at_the_first_repeated_trial(engine: Engine, work: Work) -> None:
    runner = BlockRunner(engine, STUDY, "class", decode_once=False)
    assert runner.run([work]).stop == ""
    runner = BlockRunner(engine, STUDY, "class", decode_once=False)
    with planted(engine, lambda inputs, _: wrong_position(inputs, slice(None)), 0):  # type: ignore[arg-type]
        found = runner.run([work])
    assert found.stop.partition(":")[0] in ("batch_differs", "shelf_differs")
