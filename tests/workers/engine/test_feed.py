"""The ledger is the truth: a cache that disagrees with it, or comes from elsewhere, is never used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from workers import engine as engines
from workers.engine import Engine
from workers.engine.rope import RopeLimit
from workers.errors import IsolationError
from workers.spec import ModelSpec

Tiny = Callable[[str], Engine]


def broken(check: str) -> Any:
    return pytest.raises(IsolationError, match=f"^{check}: ")


@pytest.mark.parametrize("architecture", ["llama", "jamba", "mamba"])
def test_a_cache_argument_that_forward_swallows_is_caught(
    tiny: Tiny, ids: tuple[int, ...], architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers#48430: the name of the cache argument differs from model to model."""
    engine: Any = tiny(architecture)
    monkeypatch.setattr(engine, "_kind", replace(engine._kind, keyword="kv_cache"))
    with broken("ledger_mismatch"):
        engine.prefill(ids)


def test_a_cache_that_grew_behind_the_ledger_is_caught(llama: Engine, ids: tuple[int, ...]) -> None:
    handle: Any = llama.prefill(ids[:10])
    handle.ids.pop()
    with broken("ledger_mismatch"):
        llama.feed(handle, ids[10:12])


def test_one_layer_out_of_step_is_caught(llama: Engine, ids: tuple[int, ...]) -> None:
    handle: Any = llama.prefill(ids[:10])
    handle.cache.layers[1].crop(-3)
    with broken("ledger_mismatch"):
        llama.feed(handle, ids[10:12])


@pytest.mark.parametrize("stranger", ["mistral", "scripted"])
def test_a_handle_of_another_engine_is_refused(tiny: Tiny, ids: tuple[int, ...], stranger: str) -> None:
    llama, other = tiny("llama"), tiny(stranger)
    for engine, handle in ((llama, other.prefill(ids)), (other, llama.prefill(ids))):
        for use in (
            engine.fork,
            engine.digest,
            lambda it, on=engine: on.feed(it, ids[:1]),
            lambda it, on=engine: on.crop(it, 1),
            lambda it, on=engine: on.decode(it, 1),
            lambda it, on=engine: on.score(it, "x"),
            lambda it, on=engine: on.distance(on.prefill(ids), it),
        ):
            with broken("foreign_handle"):
                use(handle)


@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_nothing_cannot_be_fed(tiny: Tiny, architecture: str) -> None:
    with pytest.raises(ValueError, match="nothing to feed"):
        tiny(architecture).prefill(())


@pytest.mark.parametrize("architecture", ["mamba", "jamba"])
def test_mamba_1_is_continued_token_by_token(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """transformers#47087: Mamba-1 cannot take a chunk on top of a state."""
    engine = tiny(architecture)
    parts = engine.prefill(ids[:30])
    engine.feed(parts, ids[30:])
    assert (engine.distance(parts, engine.prefill(ids)) or 0.0) <= engine.facts.layer1_tolerance


@pytest.mark.parametrize("architecture", ["mamba", "jamba"])
def test_mamba_1_continued_at_once_would_forget(
    tiny: Tiny, ids: tuple[int, ...], architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = tiny(architecture)
    whole = engine.prefill(ids)
    monkeypatch.setattr(engine, "_kind", replace(engine._kind, is_tokenwise=False))
    parts = engine.prefill(ids[:57])
    engine.feed(parts, ids[57:])
    assert engine.distance(parts, whole) > engine.facts.layer1_tolerance


@pytest.fixture(scope="module")
def longrope(tiny_spec: Callable[..., ModelSpec]) -> Engine:
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    rope = factors | {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 50}
    config = {"rope_parameters": rope, "max_position_embeddings": 200, "original_max_position_embeddings": 50}
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    spec = tiny_spec("phi3", config=small | config | {"num_key_value_heads": 2, "pad_token_id": 0})
    return engines.load(spec, num_threads=1)


def test_a_cache_is_not_continued_across_a_rope_switch(longrope: Engine, ids: tuple[int, ...]) -> None:
    """llama.cpp#24875: keys that are cached keep the rotation of the shorter context."""
    below = longrope.prefill(ids[:40])
    longrope.feed(below, ids[40:50])
    with broken("rope_switch"):
        longrope.feed(below, ids[50:51])


def test_a_cache_is_not_cropped_back_across_a_rope_switch(longrope: Engine, ids: tuple[int, ...]) -> None:
    above = longrope.prefill(ids[:55])
    longrope.feed(above, ids[55:])
    assert longrope.crop(above, 55).ledger == ids[:55]
    with broken("rope_switch"):
        longrope.crop(above, 50)


@pytest.mark.parametrize(("shortest", "longest"), [(40, 50), (51, 90), (40, 51)])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_span_of_lengths_must_not_reach_a_rope_switch(shortest: int, longest: int, is_dynamic: bool) -> None:
    limit = RopeLimit(50, is_dynamic)
    if longest <= 50 or (shortest > 50 and not is_dynamic):
        limit.check_span(shortest, longest)
        return
    with broken("rope_switch"):
        limit.check_span(shortest, longest)


def test_a_reply_stops_at_a_rope_switch(longrope: Engine, ids: tuple[int, ...]) -> None:
    with broken("rope_switch"):
        longrope.decode(longrope.prefill(ids[:48]), 12)


def test_dynamic_rope_is_refused_above_its_limit(tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...]) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    spec = tiny_spec("llama", config={"rope_parameters": rope, "max_position_embeddings": 50})
    engine = engines.load(spec, num_threads=1)
    engine.prefill(ids[:50])
    with broken("rope_switch"):
        engine.prefill(ids[:51])
