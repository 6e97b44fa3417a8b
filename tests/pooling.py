"""States for a pool, what is asked of them, and what each answers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from workers.engine import Answer, Ask, Pool
from workers.engine.alone import Alone
from workers.engine.passes import queue
from workers.stream import Stream

TEXTS = (" SEND report TO alice", " SEND report TO bob now")


def stream(draw: int) -> Stream:
    return Stream(temperature=1.0, seed=0, question="who", draw=draw)


class Case:
    """A state that can be made again and again, and the asks that go with it."""

    def __init__(
        self, held: int, queued: int, asks: tuple[Ask, ...], *, start: int = 0, texts: tuple[str, ...] = ()
    ) -> None:
        self.held, self.queued, self.asks, self.start, self.texts = held, queued, asks, start, texts
        self.is_masked = False

    def made(self, engine: Any, ids: tuple[int, ...]) -> Any:
        ids = ids * 6
        cut = self.start + self.held
        handle = engine.prefill(ids[self.start : cut])
        if self.is_masked:
            handle = engine.mask(handle, 1, max(2, self.held // 2))
        if self.queued:
            queue(handle, ids[cut : cut + self.queued])
        return handle

    def alone(self, engine: Any, ids: tuple[int, ...]) -> Answer:
        return Alone(engine).admit(self.made(engine, ids), self.asks, self.texts).answer()


def mixed() -> list[Case]:
    """Of every kind one: waiting or not, drawn or greedy, one ask or several or none, masked, scored."""
    cases = [
        Case(30, 5, (Ask(6),), texts=TEXTS),
        Case(41, 0, (Ask(1),), start=3),
        Case(9, 12, (Ask(4), Ask(4, stream(0)), Ask(9, stream(1)), Ask(2, stream(2)))),
        Case(57, 7, (Ask(7, stream(3)),), start=1, texts=TEXTS[:1]),
        Case(25, 0, (), texts=TEXTS),
        Case(70, 3, (Ask(5),), start=7),
        Case(33, 9, (Ask(8), Ask(3)), start=11, texts=(TEXTS[0], TEXTS[0], "x")),
        Case(12, 4, (Ask(3),), start=5),
    ]
    for case in cases[3::3]:
        case.is_masked = True
    return cases


def assert_alike(found: Answer, alone: Answer) -> None:
    assert [(reply.ids, reply.text, reply.stop) for reply in found.replies] == [
        (reply.ids, reply.text, reply.stop) for reply in alone.replies
    ]
    assert [reply.top2_margin for reply in found.replies] == pytest.approx(
        [reply.top2_margin for reply in alone.replies], abs=1e-3
    )
    assert found.scores == pytest.approx(alone.scores, abs=1e-3)


def check(pool: Pool, engine: Any, ids: tuple[int, ...], cases: Sequence[Case]) -> list[Answer]:
    tickets = [pool.admit(case.made(engine, ids), case.asks, case.texts) for case in cases]
    pool.drain()
    answers = [ticket.answer() for ticket in tickets]
    for answer, case in zip(answers, cases, strict=True):
        assert_alike(answer, case.alone(engine, ids))
    return answers
