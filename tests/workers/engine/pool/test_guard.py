"""A batch that computes wrongly is refused before a reply is read from it, and near ties are computed alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from pooling import Case, mixed, stream

from workers import engine as engines
from workers.engine import Ask, Engine
from workers.engine import batch as batches
from workers.engine.batch import Batch
from workers.engine.passes import known
from workers.engine.pool.batched import Batched
from workers.engine.pool.choosing import choose
from workers.spec import ModelSpec

Make = Callable[..., Batched]
NUM_ROWS = 7


def is_refused(engine: Any, ids: tuple[int, ...], make_pool: Make) -> bool:
    pool, case = make_pool(engine, num_rows=NUM_ROWS), Case(20, 2, (Ask(3),))
    ticket = pool.admit(case.made(engine, ids), case.asks)
    pool.drain()
    is_alone = ticket.answer().batch == "alone"
    assert is_alone == bool(pool.proof.refusal)
    return is_alone


def test_an_honest_batch_is_not_refused(llama: Engine, ids: tuple[int, ...], make_pool: Make) -> None:
    assert not is_refused(llama, ids, make_pool)


@pytest.mark.parametrize("row", range(NUM_ROWS))
@pytest.mark.parametrize("num_new", ["one", "several"])
def test_a_wrong_position_in_any_row_is_noticed(
    llama: Any, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch, row: int, num_new: str
) -> None:
    honest, feed = llama._model.forward, Batch.feed
    fed: list[list[int]] = []

    def noted(self: Batch, rows: Any, new: Any, **how: Any) -> Any:
        fed.append(list(range(rows, rows + len(new))) if isinstance(rows, int) else list(rows))
        try:
            return feed(self, rows, new, **how)
        finally:
            fed.clear()

    def shifted(position_ids: Any, **inputs: Any) -> Any:
        is_planted = fed and row in fed[-1] and (position_ids.shape[1] == 1) == (num_new == "one")
        if is_planted:
            position_ids = position_ids.clone()
            position_ids[fed[-1].index(row)] += 1
        return honest(position_ids=position_ids, **inputs)

    pool = make_pool(llama, num_rows=NUM_ROWS)
    case = Case(20, 2, (Ask(3),))
    handle = case.made(llama, ids)
    monkeypatch.setattr(Batch, "feed", noted)
    monkeypatch.setattr(llama._model, "forward", shifted)
    pool.proof.measure(_reserved(pool, handle), pool.means)
    assert pool.proof.refusal


def _reserved(pool: Batched, handle: Any) -> Batch:
    batch = pool.means.new_batch(NUM_ROWS, 256)
    batch.reserve(batches.layers_of(handle))
    return batch


@pytest.mark.parametrize("row", range(NUM_ROWS))
def test_a_neighbour_s_mask_in_any_row_is_noticed(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    honest = Batch._mask

    def borrowed(self: Batch, rows: Any, positions: Any, window: int) -> Any:
        mask = honest(self, rows, positions, window)
        places = [next(at for at, held in enumerate(self.rows) if held is one) for one in rows]
        if row in places and len(places) > 1:
            at = places.index(row)
            mask[at] = mask[at - 1].clone()
        return mask

    monkeypatch.setattr(Batch, "_mask", borrowed)
    assert is_refused(llama, ids, make_pool)


def test_a_hidden_span_that_is_seen_is_noticed(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Batch.put
    monkeypatch.setattr(Batch, "put", lambda self, layers, hidden=(): honest(self, layers))
    assert is_refused(llama, ids, make_pool)


def test_a_stale_slot_in_a_place_that_was_given_on_is_noticed(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Batch.drop

    def drop(self: Batch, row: int) -> None:
        buffers = [buffer for layer in self._layers for buffer in (layer.keys, layer.values) if buffer is not None]
        stale = [buffer[row, :, 0].clone() for buffer in buffers]
        honest(self, row)
        for buffer, held in zip(buffers, stale, strict=True):
            buffer[row, :, 0] = held

    monkeypatch.setattr(Batch, "drop", torch.inference_mode()(drop))
    assert is_refused(llama, ids, make_pool)


def test_a_row_that_does_not_forget_is_noticed(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Batch, "shorten", lambda self, row, length: None)
    assert is_refused(llama, ids, make_pool)


def test_logits_that_are_no_numbers_are_refused(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Batch.feed
    monkeypatch.setattr(Batch, "feed", lambda *inputs, **how: honest(*inputs, **how) * float("nan"))
    assert is_refused(llama, ids, make_pool)


def off_at_once(engine: Any, monkeypatch: pytest.MonkeyPatch, gap: float) -> None:
    """Let every pass of several ids, alone or in a batch, give logits that lie so far from those of single steps."""
    honest = engine._model.forward

    def off(**inputs: Any) -> Any:
        found = honest(**inputs)
        if inputs["input_ids"].shape[1] > 1:
            found.logits = found.logits + gap
        return found

    monkeypatch.setattr(engine._model, "forward", off)


@pytest.fixture(scope="module")
def unproven(tiny_spec: Callable[..., ModelSpec]) -> Any:
    """A model of no invariant kernels, on which the probes' passes happen to show no noise."""
    engine = engines.load(tiny_spec("llama", dtype="bfloat16", attention="eager"), num_threads=1)
    assert engine.facts.kernels == "stock"
    return engine


def test_unproven_kernels_are_never_believed_to_leave_no_noise(unproven: Any) -> None:
    pool = unproven.pool(is_batched=True)
    assert not pool.prove()
    largest = float(known(unproven.prefill((1, 2, 3))).abs().max())
    assert min(pool.proof.noise.values()) >= largest * torch.finfo(torch.bfloat16).eps / 2
    assert unproven._chunk_noise > 0


@pytest.mark.parametrize(("gap", "is_wrong"), [(2**-6, False), (2.0, True)])
def test_a_rounding_met_later_is_no_alarm_and_more_than_that_is_one(
    unproven: Any, monkeypatch: pytest.MonkeyPatch, gap: float, is_wrong: bool
) -> None:
    pool = unproven.pool(is_batched=True)
    assert not pool.prove()
    off_at_once(unproven, monkeypatch, gap)
    assert bool(pool.recheck()) == is_wrong


def near_ties(engine: Any, ids: tuple[int, ...], make_pool: Make, noise: float) -> tuple[list[bool], list[float], int]:
    """For each of several states whether it was read again, its margin alone, and how often anything was."""
    pool, num_alone = make_pool(engine, noise=noise), 0
    honest = pool._redone

    def counted(*inputs: Any) -> Any:
        nonlocal num_alone
        num_alone += 1
        return honest(*inputs)

    pool._redone = counted  # type: ignore[method-assign]
    cases = [Case(20 + at, 3, (Ask(4, stream(at) if at % 2 else None),), start=at) for at in range(12)]
    tickets = [pool.admit(case.made(engine, ids), case.asks) for case in cases]
    pool.drain()
    answers = [ticket.answer() for ticket in tickets]
    for answer, case in zip(answers, cases, strict=True):
        assert answer.replies[0].ids == case.alone(engine, ids).replies[0].ids
    margins = [case.alone(engine, ids).replies[0].top2_margin for case in cases]
    return [answer.again == "margin" for answer in answers], margins, num_alone


def test_exactly_the_replies_within_twice_the_noise_are_read_again(
    llama: Engine, ids: tuple[int, ...], make_pool: Make
) -> None:
    _, margins, num_alone = near_ties(llama, ids, make_pool, 0.0)
    assert num_alone == 0
    ordered = sorted(margins)
    bound = (ordered[4] + ordered[5]) / 2
    is_again, margins, num_alone = near_ties(llama, ids, make_pool, bound / 2)
    assert is_again == [margin <= bound for margin in margins]
    assert num_alone == 5


def test_a_reply_that_is_read_again_is_the_one_computed_alone(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the batch chose another: its logits are off by less than the noise, and a tie is decided by that."""
    monkeypatch.setattr("workers.engine.pool.lane.choose", _second_best)
    pool, case = make_pool(llama, noise=1e3), Case(30, 4, (Ask(5),))
    ticket = pool.admit(case.made(llama, ids), case.asks)
    pool.drain()
    assert ticket.answer().replies == case.alone(llama, ids).replies


def _second_best(logits: Any, *inputs: Any) -> Any:
    best = logits.argmax(-1, keepdim=True)
    return choose(logits.scatter(-1, best, -1e4), *inputs)


def test_where_most_replies_are_near_ties_states_are_read_alone(
    llama: Engine, ids: tuple[int, ...], make_pool: Make
) -> None:
    pool, case = make_pool(llama, noise=1e3), Case(20, 3, (Ask(2),))
    tickets = [pool.admit(case.made(llama, ids), case.asks) for _ in range(40)]
    pool.drain()
    answers = [ticket.answer() for ticket in tickets]
    assert {answer.again for answer in answers if answer.batch != "alone"} == {"margin"}
    assert answers[-1].batch == "alone"


@pytest.mark.parametrize("noise", [0.0, 1e3], ids=["told by one pass", "in doubt"])
def test_a_reply_agrees_with_the_state_that_gave_it_and_no_other_does(
    llama: Any, ids: tuple[int, ...], noise: float
) -> None:
    engine = copy.copy(llama)
    engine.__dict__["_chunk_noise"] = noise
    for case in mixed():
        for ask, reply in zip(case.asks, case.alone(engine, ids).replies, strict=True):
            _check_agrees(engine, case, ask, reply, ids)


def _check_agrees(engine: Any, case: Case, ask: Ask, reply: Any, ids: tuple[int, ...]) -> None:
    assert engine.agrees(case.made(engine, ids), ask, reply)
    other = (*reply.ids[:-1], reply.ids[-1] + 1)
    for wrong in (
        replace(reply, ids=other),
        replace(reply, ids=reply.ids[:-1]),
        replace(reply, ids=reply.ids[:-1], stop="eos"),
        replace(reply, stop="eos"),
    ):
        assert not engine.agrees(case.made(engine, ids), ask, wrong)
