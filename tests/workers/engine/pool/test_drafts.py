"""A reply that goes along a scored text is read while that is scored, and is the reply that it is alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from pooling import Case, check, stream

from workers.engine import Ask
from workers.engine.batch import Batch
from workers.engine.pool.batched import Batched

Make = Callable[..., Batched]
LONGEST = 8
TEXTS = [
    ("whole", "off"),
    ("off", "whole"),
    ("part", "off"),
    ("part", "whole"),
    ("whole", "longer", "part"),
    ("whole",),
    ("whole", "whole"),
    ("off",),
    ("one", "other"),
]
ASKS = [
    (Ask(LONGEST),),
    (Ask(2),),
    (Ask(1),),
    (Ask(LONGEST), Ask(LONGEST, stream(0)), Ask(5)),
    (Ask(LONGEST, stream(0)), Ask(LONGEST)),
    (Ask(3, stream(1)), Ask(LONGEST), Ask(4)),
]


class Spelled:
    """A chat that writes some words in ids of ours."""

    def __init__(self, chat: Any, words: dict[str, tuple[int, ...]]) -> None:
        self._chat, self._words = chat, words

    def encode(self, text: str) -> tuple[int, ...]:
        return self._words[text]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chat, name)


def spelling(engine: Any, ids: tuple[int, ...], eos: int | None = None) -> tuple[Any, Case]:
    """The engine, for which words are along its own greedy reply or leave it, and a state that replies so."""
    case = Case(30, 5, (Ask(LONGEST),))
    reply = engine.decode(case.made(engine, ids), LONGEST).ids
    assert len(reply) == LONGEST
    foreign = reply[0] + 1, reply[1] + 1
    words = {
        "whole": reply,
        "longer": (*reply, 7, 9),
        "part": (*reply[:4], *foreign),
        "off": (*foreign, *reply[2:]),
        "one": (reply[0],),
        "other": (foreign[0],),
    }
    engine = copy.copy(engine)
    engine._chat = Spelled(engine._chat, words)
    if eos is not None:
        engine._eos_ids = frozenset({reply[eos]})
    return engine, case


@contextmanager
def stepped() -> Iterator[list[int]]:
    """Rows of every pass of one id each."""
    sizes, feed = [], Batch.feed

    def noted(self: Batch, rows: Any, ids: Any, **how: Any) -> Any:
        if not how.get("keeps_all") and "least" not in how:
            sizes.append(len(ids))
        return feed(self, rows, ids, **how)

    with mock.patch.object(Batch, "feed", noted):
        yield sizes


@pytest.mark.parametrize("sync_every", [1, 8])
@pytest.mark.parametrize("eos", [None, 0, 3, LONGEST - 1])
def test_a_reply_along_a_text_is_the_reply_that_it_is_alone(
    llama: Any, ids: tuple[int, ...], make_pool: Make, eos: int | None, sync_every: int
) -> None:
    engine, case = spelling(llama, ids, eos)
    pool = make_pool(engine, num_rows=4, sync_every=sync_every)
    cases = [Case(case.held, case.queued, asks, texts=texts) for texts in TEXTS for asks in ASKS]
    check(pool, engine, ids, cases)


@pytest.mark.parametrize(
    ("texts", "num_steps"),
    [
        (("whole", "off"), 0),
        (("off", "whole"), 0),
        (("part", "off"), 3),
        (("off",), LONGEST - 1),
        (("one", "other"), 7),
    ],
)
def test_what_a_scored_text_tells_is_not_stepped_again(
    llama: Any, ids: tuple[int, ...], make_pool: Make, texts: tuple[str, ...], num_steps: int
) -> None:
    engine, case = spelling(llama, ids)
    pool = make_pool(engine)
    pool.prove()
    with stepped() as sizes:
        check(pool, engine, ids, [Case(case.held, case.queued, case.asks, texts=texts)])
    assert sizes == [1] * num_steps


@pytest.mark.parametrize("eos", [None, 0, 3, LONGEST - 1])
def test_a_reply_alone_may_go_along_a_text_too(llama: Any, ids: tuple[int, ...], eos: int | None) -> None:
    engine, case = spelling(llama, ids, eos)
    cases = [Case(case.held, case.queued, asks, texts=texts) for texts in TEXTS for asks in ASKS]
    check(engine.pool(is_batched=False, is_timed=False), engine, ids, cases)


@pytest.mark.parametrize(("is_timed", "sizes"), [(False, [LONGEST - 1]), (True, [1] * (LONGEST - 1))])
def test_a_reply_whose_time_is_asked_for_takes_a_step_for_each_token(
    llama: Any, ids: tuple[int, ...], is_timed: bool, sizes: list[int]
) -> None:
    engine, case = spelling(llama, ids)
    fed: list[int] = []

    class Noting(type(engine)):  # type: ignore[misc]
        def _feed(self, handle: Any, new: Any, **how: Any) -> Any:
            fed.append(len(new))
            return super()._feed(handle, new, **how)

    engine.__class__ = Noting
    pool = engine.pool(is_batched=False, is_timed=is_timed)
    pool.admit(case.made(engine, ids), case.asks, ("off", "whole"))
    assert fed[-len(sizes) :] == sizes


def test_kernels_that_are_not_proven_step(smollm2: Any, ids: tuple[int, ...]) -> None:
    stock = copy.copy(smollm2)
    stock._facts = replace(stock.facts, kernels="stock")
    assert smollm2.pool(is_batched=False, is_timed=False).along is not None
    assert stock.pool(is_batched=False, is_timed=False).along is None
