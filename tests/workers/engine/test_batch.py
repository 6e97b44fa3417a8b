"""A row of a batch holds and predicts what it would alone, whoever its neighbours are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from workers.engine import Engine
from workers.engine.batch import Batch, layers_of
from workers.engine.causal import CausalEngine
from workers.engine.handle import CacheHandle

LENGTHS = (70, 5, 130, 33)
NEW = (1, 9, 4, 30)


def ids_of(length: int, seed: int) -> tuple[int, ...]:
    return tuple((seed * 7919 + 31 * at) % 40_000 + 10 for at in range(length))


def alone(engine: Engine, prefix: Sequence[int], new: Sequence[int]) -> CacheHandle:
    handle = engine.prefill(prefix)
    if new:
        engine.feed(handle, new)
    assert isinstance(handle, CacheHandle)
    return handle


@pytest.fixture
def batch(llama: Engine) -> Batch:
    assert isinstance(llama, CausalEngine)
    return Batch(llama._model, llama._kind.keyword, num_rows=5, num_slots=192)


@pytest.fixture
def filled(llama: Engine, batch: Batch) -> Batch:
    for seed, length in enumerate(LENGTHS):
        batch.put(layers_of(alone(llama, ids_of(length, seed), ())))
    return batch


def new_ids(count: int | None = None) -> list[tuple[int, ...]]:
    return [ids_of(count or number, 50 + seed) for seed, number in enumerate(NEW)]


@pytest.mark.parametrize("count", [None, 1, 12])
def test_rows_of_every_length_predict_what_each_predicts_alone(llama: Engine, filled: Batch, count: int | None) -> None:
    new = new_ids(count)
    logits = filled.feed(0, new)
    for seed, length in enumerate(LENGTHS):
        handle = alone(llama, ids_of(length, seed), new[seed])
        assert handle.logits is not None
        torch.testing.assert_close(logits[seed], handle.logits, atol=2e-4, rtol=1e-4)
        held = filled.cut(seed, 0, length + len(new[seed]))
        for ours, theirs in zip(held, layers_of(handle), strict=True):
            torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)


def test_a_row_that_leaves_gives_its_place_to_the_last(llama: Engine, filled: Batch) -> None:
    filled.drop(1)
    logits = filled.feed(0, [ids_of(1, 9)] * 3)
    for row, seed in enumerate((0, 3, 2)):
        handle = alone(llama, ids_of(LENGTHS[seed], seed), ids_of(1, 9))
        torch.testing.assert_close(logits[row], handle.logits, atol=2e-4, rtol=1e-4)


def test_a_shortened_row_forgets_what_it_was_fed(llama: Engine, filled: Batch) -> None:
    filled.feed(0, [ids_of(20, 77)] * 4)
    for row, length in enumerate(LENGTHS):
        filled.shorten(row, length)
    logits = filled.feed(0, [ids_of(3, 9)] * 4)
    for seed, length in enumerate(LENGTHS):
        handle = alone(llama, ids_of(length, seed), ids_of(3, 9))
        torch.testing.assert_close(logits[seed], handle.logits, atol=2e-4, rtol=1e-4)


def test_hidden_positions_stay_hidden(llama: Engine, batch: Batch) -> None:
    handle = llama.mask(llama.prefill(ids_of(40, 1)), 10, 20)
    assert isinstance(handle, CacheHandle)
    batch.put(layers_of(handle), handle.hidden)
    batch.put(layers_of(alone(llama, ids_of(60, 2), ())))
    logits = batch.feed(0, [ids_of(4, 3), ids_of(2, 4)])
    llama.feed(handle, ids_of(4, 3))
    torch.testing.assert_close(logits[0], handle.logits, atol=2e-4, rtol=1e-4)


def test_a_batch_says_when_it_is_full(filled: Batch, llama: Engine) -> None:
    layers = layers_of(alone(llama, ids_of(3, 1), ()))
    filled.put(layers)
    with pytest.raises(ValueError, match="all 5 rows"):
        filled.put(layers)
    with pytest.raises(ValueError, match="do not fit in 192 slots"):
        filled.feed(2, [ids_of(63, 1)])
