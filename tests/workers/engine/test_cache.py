"""Copies share nothing, crops keep nothing, and Layer 1 sees every kind of state."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from workers.engine import Engine
from workers.engine import cache as kv
from workers.errors import IsolationError, Unsupported

Tiny = Callable[[str], Engine]
BATCH_ONE = pytest.mark.parametrize("architecture", ["llama", "mistral", "falcon_h1", "mamba", "lfm2"])


def storages(handle: Any) -> dict[str, int]:
    return {name: tensor.untyped_storage().data_ptr() for name, tensor in kv.tensors(handle.cache)}


@BATCH_ONE
def test_a_fork_shares_no_storage(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """transformers#32681: a deep copy needs tensors that no gradient is recorded of."""
    engine = tiny(architecture)
    parent = engine.prefill(ids)
    child = engine.fork(parent)
    assert storages(parent).keys() == storages(child).keys()
    assert not set(storages(parent).values()) & set(storages(child).values())


@BATCH_ONE
def test_what_happens_to_a_fork_leaves_its_parent_alone(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    parent: Any = engine.prefill(ids)
    before = engine.digest(parent)
    child: Any = engine.fork(parent)
    assert engine.digest(child) == before
    with torch.inference_mode():
        for _, tensor in kv.tensors(child.cache):
            tensor.add_(1)
    engine.feed(child, ids[:5])
    assert engine.digest(parent) == before
    assert engine.digest(child) != before


def test_every_state_counts_for_the_digest_and_the_distance(tiny: Tiny, ids: tuple[int, ...]) -> None:
    engine = tiny("falcon_h1")
    parent = engine.prefill(ids)
    names = [name for name, _ in kv.tensors(parent.cache)]  # type: ignore[attr-defined]
    assert {name.split(".")[1] for name in names} == {"keys", "values", "conv_states", "recurrent_states"}
    for name in names:
        child: Any = engine.fork(parent)
        with torch.inference_mode():
            dict(kv.tensors(child.cache))[name].flatten()[0].add_(10)
        assert engine.digest(child) != engine.digest(parent), name
        assert (engine.distance(child, parent) or 0) > engine.facts.layer1_tolerance, name


def test_a_rollback_that_keeps_the_recurrent_state_is_seen(tiny: Tiny, ids: tuple[int, ...]) -> None:
    # transformers#49036: with recording on, crop reports success and leaves the branch in the recurrent state.
    engine = tiny("falcon_h1")
    committed, branch = ids[:40], ids[40:]
    reference: Any = engine.prefill(committed)
    leaky: Any = engine.fork(reference)
    explored: Any = engine.fork(reference)
    engine.feed(explored, branch)
    for clean, dirty in zip(leaky.cache.layers, explored.cache.layers, strict=True):
        clean.recurrent_states = dirty.recurrent_states
    assert (engine.distance(leaky, reference) or 0) > engine.facts.layer1_tolerance


def test_a_state_that_is_not_a_number_is_not_close(llama: Engine, ids: tuple[int, ...]) -> None:
    reference = llama.prefill(ids)
    broken: Any = llama.fork(reference)
    with torch.inference_mode():
        broken.cache.layers[0].keys[..., 0, 0] = float("nan")
    assert llama.distance(broken, reference) == float("inf")


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_a_crop_leaves_nothing_of_the_branch_in_memory(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    session: Any = engine.prefill(ids)
    before = engine.digest(session)
    cropped: Any = engine.crop(session, 40)
    for name, tensor in kv.tensors(cropped.cache):
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size(), name
    last_key = session.cache.layers[0].keys[0, 0, -1].contiguous().numpy().tobytes()
    assert last_key in pickle.dumps(session.cache.layers[0].keys)
    assert last_key not in pickle.dumps([tensor for _, tensor in kv.tensors(cropped.cache)])
    assert cropped.ledger == ids[:40]
    assert engine.digest(session) == before


@pytest.mark.parametrize("length", [0, -1, 61])
@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_a_crop_to_a_length_that_makes_no_sense_is_refused(
    tiny: Tiny, ids: tuple[int, ...], architecture: str, length: int
) -> None:
    """transformers#47433: a crop by 0 kept all, and one by more than there was kept stale tokens."""
    engine = tiny(architecture)
    with pytest.raises(ValueError, match="cannot keep"):
        engine.crop(engine.prefill(ids), length)


@pytest.mark.parametrize("excess", [1, -1])
def test_a_library_crop_of_another_length_is_caught_at_once(
    llama: Engine, ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    honest = DynamicCache.crop
    monkeypatch.setattr(DynamicCache, "crop", lambda cache, length: honest(cache, length + excess))
    with pytest.raises(IsolationError, match=f"ledger_mismatch: the cache holds {40 + excess} tokens, the ledger 40"):
        llama.crop(llama.prefill(ids), 40)


@pytest.mark.parametrize("architecture", ["falcon_h1", "qwen3_next", "jamba", "mamba", "lfm2"])
def test_what_folds_its_past_into_a_state_is_never_cropped(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """llama.cpp#28007: a rollback that failed was ignored."""
    engine = tiny(architecture)
    session = engine.prefill(ids)
    before = engine.digest(session)
    with pytest.raises(Unsupported, match="cannot be rolled back"):
        engine.crop(session, 40)
    assert engine.digest(session) == before


def test_a_crop_past_the_chunk_is_unsupported_and_below_it_is_exact(tiny: Tiny, ids: tuple[int, ...]) -> None:
    engine = tiny("llama4_text")
    with pytest.raises(Unsupported, match="does not track past states"):
        engine.crop(engine.prefill(ids), 40)
    short = engine.prefill(ids[:6])
    engine.feed(short, ids[6:12])
    assert engine.digest(engine.crop(short, 6)) == engine.digest(engine.prefill(ids[:6]))
