"""What a pool reads from a state is what is read from it alone, whoever its neighbours are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pooling import Case, assert_alike, check, mixed, stream

from workers import engine as engines
from workers.engine import Answer, Ask, Engine
from workers.engine.alone import Alone
from workers.engine.pool.batched import Batched
from workers.errors import OutOfMemory
from workers.spec import ModelSpec

Make = Callable[..., Batched]
QWEN = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("sync_every", [1, 8])
@pytest.mark.parametrize("num_rows", [2, 4, 16])
def test_every_kind_of_state_answers_as_it_does_alone(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, num_rows: int, sync_every: int
) -> None:
    """transformers#30378, vllm#5898, lm-evaluation-harness#1645: a row of a batch had not the reply it has alone."""
    answers = check(make_pool(llama, num_rows=num_rows, sync_every=sync_every), llama, ids, mixed())
    assert {answer.batch for answer in answers} == {f"{num_rows}x256"}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_biased_projections_and_both_attentions_answer_so_too(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...], make_pool: Make, attention: str
) -> None:
    engine = engines.load(tiny_spec("qwen2", config=QWEN, attention=attention), num_threads=1)
    check(make_pool(engine), engine, ids, mixed())


def test_the_embedded_model_answers_so_too(smollm2: Engine, ids: tuple[int, ...], make_pool: Make) -> None:
    check(make_pool(smollm2, noise=1e-3), smollm2, ids, mixed()[:4])


lengths = st.tuples(st.integers(1, 70), st.integers(0, 9), st.integers(1, 7), st.booleans())


@settings(max_examples=12)
@given(shapes=st.lists(lengths, min_size=1, max_size=9), sync_every=st.sampled_from([1, 3]))
def test_rows_come_and_go_in_every_order(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, shapes: list[tuple[int, int, int, bool]], sync_every: int
) -> None:
    pool = make_pool(llama, num_rows=3, sync_every=sync_every, noise=1e-5)
    cases = [
        Case(held, queued, (Ask(budget, stream(budget) if is_drawn else None),) * (1 + queued % 2), start=budget)
        for held, queued, budget, is_drawn in shapes
    ]
    check(pool, llama, ids, cases)


def test_an_admitted_state_is_a_copy(llama: Any, ids: tuple[int, ...], make_pool: Make) -> None:
    case, pool = Case(20, 4, (Ask(5),)), make_pool(llama)
    handle = case.made(llama, ids)
    ticket = pool.admit(handle, case.asks)
    llama.feed(handle, ids[:9])
    pool.drain()
    assert_alike(ticket.answer(), case.alone(llama, ids))


@pytest.mark.parametrize("sync_every", [1, 8])
def test_a_reply_that_ends_at_once_leaves_at_once(
    llama: Any, ids: tuple[int, ...], make_pool: Make, sync_every: int
) -> None:
    cases = mixed()
    first, later = llama.decode(cases[0].made(llama, ids), 6).ids[::3][:2]
    for eos_ids in ({first}, {later}, {first, later}):
        engine = copy.copy(llama)
        engine._eos_ids = frozenset(eos_ids)
        answers = check(make_pool(engine, sync_every=sync_every), engine, ids, cases)
        assert answers[0].replies[0].stop == "eos"


def test_a_longer_state_opens_a_larger_batch_and_the_shorter_ones_join_it(
    llama: Engine, ids: tuple[int, ...], make_pool: Make
) -> None:
    cases = [Case(20, 2, (Ask(3),)), Case(260, 2, (Ask(3),)), Case(20, 2, (Ask(3),), start=2)]
    answers = check(make_pool(llama), llama, ids, cases)
    assert [answer.batch for answer in answers] == ["4x256", "4x384", "4x384"]


def test_a_state_too_long_for_two_rows_is_read_alone_and_disturbs_no_batch(
    llama: Engine, ids: tuple[int, ...], make_pool: Make
) -> None:
    pool = make_pool(llama)
    pool.bounds = replace(pool.bounds, num_bytes=4 * 256 * llama.token_bytes)
    cases = [Case(20, 2, (Ask(3),)), Case(300, 300, (Ask(3),)), Case(20, 2, (Ask(3),), start=2)]
    assert [answer.batch for answer in check(pool, llama, ids * 2, cases)] == ["4x256", "alone", "4x256"]


@pytest.mark.parametrize("num_rows", [2, 8])
def test_what_is_no_number_in_one_row_hurts_no_other(
    llama: Any, ids: tuple[int, ...], make_pool: Make, num_rows: int
) -> None:
    pool, cases, tickets = make_pool(llama, num_rows=num_rows), mixed(), []
    broken = []
    for case in cases:
        handle = Case(64, 2, (Ask(3),)).made(llama, ids)
        layer = handle.cache.layers[1]
        layer.values = layer.values.clone()
        layer.values[0, 0, 60] = float("nan")
        broken.append(pool.admit(handle, (Ask(3), Ask(5)), ("a",)))
        tickets.append(pool.admit(case.made(llama, ids), case.asks, case.texts))
    pool.drain()
    for ticket, case in zip(tickets, cases, strict=True):
        assert_alike(ticket.answer(), case.alone(llama, ids))
    for ticket in broken:
        with pytest.raises(FloatingPointError):
            ticket.answer()


def test_a_ticket_has_no_answer_before_its_turn(llama: Engine, ids: tuple[int, ...], make_pool: Make) -> None:
    pool, case = make_pool(llama), Case(20, 2, (Ask(3),))
    ticket = pool.admit(case.made(llama, ids), case.asks)
    with pytest.raises(ValueError, match="not come to it"):
        ticket.answer()


def test_what_cannot_be_read_is_refused_where_it_is_admitted(
    llama: Engine, ids: tuple[int, ...], make_pool: Make
) -> None:
    pool = make_pool(llama)
    with pytest.raises(ValueError, match="predicts nothing"):
        pool.admit(llama.crop(llama.prefill(ids), 9), (Ask(3),))
    with pytest.raises(ValueError, match="empty text"):
        pool.admit(llama.prefill(ids), (Ask(3),), ("",))


def test_rows_are_halved_until_they_fit_and_then_states_are_read_alone(
    llama: Engine, ids: tuple[int, ...], make_pool: Make
) -> None:
    def answers(most: int) -> list[Answer]:
        pool = make_pool(llama, num_rows=8)
        honest = pool.means.new_batch

        def new_batch(num_rows: int, num_slots: int) -> Any:
            if num_rows > most:
                raise OutOfMemory("full")
            return honest(num_rows, num_slots)

        pool.means = replace(pool.means, new_batch=new_batch)
        return check(pool, llama, ids, mixed())

    assert {answer.batch for answer in answers(2)} == {"2x256"}
    assert {answer.batch for answer in answers(1)} == {"alone"}


def test_a_device_that_fills_up_at_work_fails_the_rows_at_work_and_takes_fewer_afterwards(
    llama: Engine, ids: tuple[int, ...], make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, case = make_pool(llama), Case(20, 2, (Ask(3),))
    lost = [pool.admit(case.made(llama, ids), case.asks) for _ in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr("workers.engine.batch.Batch.feed", _full)
        pool.drain()
    for ticket in lost:
        with pytest.raises(OutOfMemory):
            ticket.answer()
    assert [answer.batch for answer in check(pool, llama, ids, [case])] == ["2x256"]


def _full(*_: Any, **__: Any) -> Any:
    raise OutOfMemory("full")


@pytest.mark.parametrize("architecture", ["mistral", "falcon_h1", "mamba", "llama4_text"])
def test_what_cannot_stand_side_by_side_is_read_alone(tiny: Callable[[str], Engine], architecture: str) -> None:
    assert isinstance(tiny(architecture).pool(is_batched=True), Alone)


def test_our_own_path_alone_is_batched_where_it_is_asked_for(llama: Engine) -> None:
    assert isinstance(llama.pool(is_batched=True), Batched)
    assert isinstance(llama.pool(is_batched=False), Alone)
    assert isinstance(llama.through("default").pool(is_batched=True), Alone)


def test_a_token_takes_keys_and_values_of_every_layer(llama: Any) -> None:
    config = llama._model.config
    head = config.hidden_size // config.num_attention_heads
    assert llama.token_bytes == 2 * config.num_hidden_layers * config.num_key_value_heads * head * 4
