"""Somebody's cache is read as it is, whatever class it has and however it was filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache, StaticCache

from workers.engine import Engine, theirs

Tiny = Callable[[str], Engine]
MAKES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda config: DynamicCache(),
    "by config": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=80),
}
every_make = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
# The sixty ids are longer than the windows of mistral and gemma2.
every_family = pytest.mark.parametrize("architecture", ["llama", "mistral", "gemma2"])


def fed(engine: Any, cache: Any, ids: tuple[int, ...], *parts: int) -> Any:
    """The cache with the ids in it, cut before each of the `parts`."""
    for start, stop in zip((0, *parts), (*parts, len(ids)), strict=True):
        positions = torch.arange(start, stop)[None]
        chunk = torch.tensor([ids[start:stop]])
        engine._model(chunk, position_ids=positions, use_cache=True, **{engine._kind.keyword: cache})
    return cache


@every_make
@every_family
@pytest.mark.parametrize("length", [20, 47, 48, 60])
def test_a_cache_of_any_class_is_held_against_our_own(
    tiny: Tiny, ids: tuple[int, ...], architecture: str, make: Callable[[Any], Any], length: int
) -> None:
    """transformers#45745: a static cache counts in a tensor, and keeps room for tokens to come."""
    engine: Any = tiny(architecture)
    with torch.inference_mode():
        cache = fed(engine, make(engine._model.config), ids[:length], 15)
    assert theirs.is_readable(engine, cache)
    assert theirs.num_tokens(cache) == length
    gap = theirs.distance(cache, engine.prefill(ids[:length]))
    assert gap is not None
    assert gap <= engine.facts.layer1_tolerance
    other = theirs.distance(cache, engine.prefill((*ids[: length - 1], ids[length - 1] + 1)))
    assert other is None or other > engine.facts.layer1_tolerance


def test_what_a_static_crop_leaves_behind_its_counter_is_not_held_against_it(llama: Any, ids: tuple[int, ...]) -> None:
    """transformers#45745: its crop moves a counter, and the branch stays in memory, where nobody attends to it."""
    with torch.inference_mode():
        cache = fed(llama, StaticCache(config=llama._model.config, max_cache_len=80), ids, 40)
        cache.crop(-20)
    assert cache.layers[0].keys[..., 40:60, :].abs().max() > 0
    assert theirs.num_tokens(cache) == 40
    assert theirs.distance(cache, llama.prefill(ids[:40])) == pytest.approx(0.0, abs=llama.facts.layer1_tolerance)
    with torch.inference_mode():
        fed_again = fed(llama, cache, ids[40:50])
    assert theirs.num_tokens(fed_again) == 50


@every_make
def test_a_cache_that_was_filled_with_gradients_is_read(
    llama: Any, ids: tuple[int, ...], make: Callable[[Any], Any]
) -> None:
    """transformers#32681: tensors that are no leaves cannot be copied deeply, so they are read where they are."""
    weights = list(llama._model.parameters())
    before = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        cache = make(llama._model.config)
        if isinstance(cache, StaticCache):
            # In-place writes into what autograd watches are refused by torch itself, beyond the first pass.
            fed(llama, cache, ids)
        else:
            fed(llama, cache, ids, 40)
    finally:
        for weight, is_wanted in zip(weights, before, strict=True):
            weight.requires_grad_(is_wanted)
    assert cache.layers[0].keys.requires_grad
    assert theirs.num_tokens(cache) == 60
    assert (theirs.distance(cache, llama.prefill(ids)) or 0.0) <= llama.facts.layer1_tolerance
