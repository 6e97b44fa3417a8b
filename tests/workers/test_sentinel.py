"""Trials repeated alone: what sharing and batching got wrong ends the block, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from batched import Batched, honest, on_row
from planting import VERDICTS

from workers.block import Block, Work
from workers.engine import Answer, Handle
from workers.engine.null import NullEngine
from workers.runner import BlockRunner, Computed
from workers.sentinel import EVERY
from workers.spec import ModelSpec
from workers.studies import get

Row = dict[str, Any]
STUDY = get("rollback")


@pytest.fixture(scope="module")
def works(make_blocks: Callable[..., list[Block]]) -> list[Work]:
    arms = "study.arms=[stale,fresh,cold,text_present,truncate,position_control]"
    return [work for block in make_blocks("where=strength != 'neutral'", arms) for work in block.works]


def run(engine: NullEngine, works: Sequence[Work], isolation: str = "class", **settings: Any) -> Computed:
    return BlockRunner(engine, STUDY, isolation, **settings).run(works)


def flat(computed: Computed) -> list[Row]:
    return [row for rows in computed.rows for row in rows]


def test_every_arm_is_repeated_alone_once_and_then_ever_more_trials(scripted: ModelSpec, works: list[Work]) -> None:
    repeated: list[str] = []

    class Counting(Batched):
        def agrees(self, handle: Handle, *rest: Any) -> bool:
            repeated.append("")
            return super().agrees(handle, *rest)

    runner = BlockRunner(Counting(scripted), STUDY, "class")
    assert runner.run(works[:1]).stop == ""
    assert len(repeated) == 6
    for _ in range(30):
        runner.run(works[:7])
    assert 6 < len(repeated) <= 6 + (6 + 30 * 7 * 6) // EVERY


def test_every_shape_of_batch_is_repeated_for_every_arm(scripted: ModelSpec, works: list[Work]) -> None:
    repeated: list[str] = []

    class Counting(Batched):
        def agrees(self, handle: Handle, *rest: Any) -> bool:
            repeated.append("")
            return super().agrees(handle, *rest)

    def shaped(at: int, answer: Answer) -> Answer:
        return replace(answer, batch=f"{1 + at // 6}x64")

    assert run(Counting(scripted, shaped), works[:3], decode_once=False).stop == ""
    assert len(repeated) == 3 * 6


def test_nothing_is_repeated_where_every_trial_was_alone(scripted: ModelSpec, works: list[Work]) -> None:
    class Refusing(NullEngine):
        def agrees(self, *_: Any) -> bool:
            raise AssertionError

    assert run(Refusing(scripted), works, decode_once=False).stop == ""
    assert run(Refusing(scripted), works, "strict").stop == ""


@pytest.mark.parametrize("number", range(6))
def test_a_wrong_reply_of_any_row_ends_the_block_and_the_model(
    scripted: ModelSpec, works: list[Work], number: int
) -> None:
    found = run(Batched(scripted, on_row(number)), works[:1], decode_once=False)
    assert "computed again alone, differs: another reply than" in found.stop
    for row in flat(found):
        assert (row["status"], row["failed_checks"]) == ("invalid", "batch_differs")
        assert row["error"].startswith("batch_differs: ")
        assert {name: row.get(name) for name in VERDICTS} == dict.fromkeys(VERDICTS)
        assert row["reply_ids"]
        assert row["committed_ids"]


def test_a_wrong_score_of_a_row_is_found(scripted: ModelSpec, works: list[Work]) -> None:
    found = run(
        Batched(scripted, lambda _, answer: replace(answer, scores=(answer.scores[0] + 1, *answer.scores[1:]))),
        works[:1],
    )
    assert "differs: target_margin" in found.stop


def test_an_arm_that_shares_a_decode_alone_is_repeated_through_its_own_state(
    scripted: ModelSpec, works: list[Work]
) -> None:
    """Two states that pass for one: the fingerprint lies, and what the arm does alone tells."""

    class Lying(NullEngine):
        def fingerprint(self, handle: Handle) -> str:
            return "same"

    found = run(Lying(scripted), works[:1])
    assert found.stop
    assert {row["failed_checks"] for row in flat(found)} == {"batch_differs"}


def test_an_honest_batch_stops_nothing(scripted: ModelSpec, works: list[Work]) -> None:
    assert run(Batched(scripted, honest), works, decode_once=False).stop == ""
