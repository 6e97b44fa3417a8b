"""One model on three paths: the framework's default, its `generate`, and our own forward say the same on one state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from workers import arms
from workers import engine as engines
from workers.bench import Bench
from workers.engine import Decoded, Engine
from workers.engine import cache as kv
from workers.episode import Message
from workers.errors import IsolationError, Unsupported
from workers.spec import ModelSpec
from workers.stream import Stream

Tiny = Callable[[str], Engine]
STREAM = Stream(temperature=1.0, seed=0, question="who", draw=0)
FAMILIES = ["scripted", "llama", "mistral", "llama4_text", "falcon_h1", "lfm2"]
ARMS = ("stale", "fresh", "cold", "text_present")
FRAMEWORK = ("default", "generate")


@contextmanager
def forwards(engine: Any) -> Iterator[list[dict[str, Any]]]:
    """The keyword arguments of every call of the model's forward."""
    calls: list[dict[str, Any]] = []

    def note(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        assert args == ()
        calls.append(dict(kwargs))

    hook = engine._model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield calls
    finally:
        hook.remove()


def decided(states: Bench, path: Any, name: str, stream: Stream | None) -> Decoded:
    arm, engine = arms.get(name), states.engine.through(path)
    states.engine = engine
    handle = arm.prepare(states)
    if not arm.is_one_pass:
        engine.feed(handle, states.split.delta_ids)
    return engine.decode(handle, 6, stream)


@pytest.mark.parametrize("stream", [None, STREAM], ids=["greedy", "drawn"])
@pytest.mark.parametrize("path", FRAMEWORK)
@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_arm_replies_alike_on_every_path(
    tiny: Tiny, bench: Callable[[Engine], Bench], architecture: str, path: str, stream: Stream | None
) -> None:
    engine = tiny(architecture)
    states, ours = bench(engine), bench(engine)
    for name in ARMS:
        found, expected = decided(states, path, name, stream), decided(ours, "explicit", name, stream)
        assert (found.ids, found.text, found.stop) == (expected.ids, expected.text, expected.stop)
        assert found.top2_margin == pytest.approx(expected.top2_margin, abs=1e-3)


@pytest.mark.parametrize("path", FRAMEWORK)
@pytest.mark.parametrize("architecture", ["llama", "falcon_h1"])
def test_layer_1_tells_the_restored_from_the_stale_on_every_path(
    tiny: Tiny, bench: Callable[[Engine], Bench], architecture: str, path: Any
) -> None:
    states = bench(tiny(architecture))
    states.engine = states.engine.through(path)
    tolerance = states.engine.facts.layer1_tolerance
    for name in ("fresh", "checkpoint"):
        assert (states.engine.distance(arms.get(name).prepare(states), states.reference) or 0.0) <= tolerance
    assert states.engine.distance(arms.get("stale").prepare(states), states.reference) is None
    assert states.is_intact()


def test_a_path_to_where_one_is_changes_nothing(tiny: Tiny) -> None:
    engine = tiny("llama")
    assert engine.through("explicit") is engine
    assert engine.through("default").through("explicit").facts == engine.facts


# The framework's default


@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen3_next"])
def test_the_default_path_gives_ids_and_cache_and_nothing_else(
    tiny: Tiny, ids: tuple[int, ...], architecture: str
) -> None:
    engine: Any = tiny(architecture).through("default")
    with forwards(engine) as calls:
        handle = engine.prefill(ids[:40])
        engine.feed(handle, ids[40:])
        engine.score(handle, "SEND report")
        engine.decode(handle, 3)
    assert len(calls) == 5
    assert {frozenset(call) for call in calls} == {frozenset({"input_ids", engine._kind.keyword, "use_cache"})}
    assert all(call["use_cache"] is True for call in calls)
    assert calls[1]["input_ids"].tolist() == [list(ids[40:])]


@pytest.mark.parametrize("architecture", ["jamba", "mamba"])
@pytest.mark.parametrize("path", FRAMEWORK)
def test_a_path_on_which_the_framework_forgets_is_unsupported(tiny: Tiny, architecture: str, path: Any) -> None:
    """kv_cache_facts, fact 6: a Mamba-1 scan starts from zeros whenever it is given more than one token."""
    for _ in range(2):
        with pytest.raises(Unsupported, match=r"continues a cache wrongly|feeds all of it again"):
            tiny(architecture).through(path)


def test_positions_that_the_framework_counts_from_zero_again_are_found(tiny_spec: Callable[..., ModelSpec]) -> None:
    """kv_cache_facts, fact 7: Bamba, where nobody gives it positions."""
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    ssm = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "attn_layer_indices": [1]}
    engine = engines.load(tiny_spec("bamba", config=small | ssm | {"num_key_value_heads": 2}), num_threads=1)
    with pytest.raises(Unsupported, match="on the default path this model continues a cache wrongly"):
        engine.through("default")
    engine.through("generate")


def test_what_the_framework_raises_on_a_path_becomes_the_reason(
    tiny_spec: Callable[..., ModelSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = engines.load(tiny_spec("llama"), num_threads=1)

    def refuse(**kwargs: Any) -> None:
        raise TypeError("no such\n  argument")

    monkeypatch.setattr(engine._model, "generate", refuse)
    with pytest.raises(Unsupported, match=r"cannot take the generate path: TypeError: no such argument$"):
        engine.through("generate")
    engine.through("default")


# generate


def test_the_decision_feeds_the_delta_and_the_delta_alone_to_the_kept_cache(
    llama: Engine, ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = llama.through("generate")
    handle = engine.prefill(ids[:30])
    engine.feed(handle, ids[30:40])
    engine.feed(handle, ids[40:])
    given: list[Any] = []
    honest = engine._model.generate
    monkeypatch.setattr(engine._model, "generate", lambda **call: given.append(call) or honest(**call))
    with forwards(engine) as calls:
        reply = engine.decode(handle, 4)
    assert len(given) == 1
    assert given[0]["input_ids"].tolist() == [list(ids)]
    assert given[0][engine._kind.keyword] is handle.cache
    assert calls[0]["input_ids"].tolist() == [list(ids[40:])]
    assert len(calls) == len(reply.ids) == 4
    assert handle.ledger == ids + reply.ids[:-1]
    assert handle.passes == (30, 10, 20, 1, 1, 1)


def test_what_waits_is_in_the_ledger_and_not_yet_in_the_cache(llama: Engine, ids: tuple[int, ...]) -> None:
    engine: Any = llama.through("generate")
    handle = engine.prefill(ids[:40])
    assert handle.cache.get_seq_length() == 40
    engine.feed(handle, ids[40:])
    assert (handle.ledger, handle.passes) == (ids, (40, 20))
    assert handle.cache.get_seq_length() == 40
    fork = engine.fork(handle)
    assert (fork.ledger, fork.cache.get_seq_length()) == (ids, 40)
    engine.score(handle, "SEND report")
    assert handle.cache.get_seq_length() == 40


LOOKS: dict[str, Callable[[Any, Any], object]] = {
    "digest": lambda engine, handle: engine.digest(handle),
    "distance": lambda engine, handle: engine.distance(handle, handle),
    "crop": lambda engine, handle: engine.crop(handle, 50),
    "mask": lambda engine, handle: engine.mask(handle, 10, 20),
    "the next feed": lambda engine, handle: engine.feed(handle, (5,)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_whoever_looks_at_the_state_has_it_encoded_first(
    llama: Engine, ids: tuple[int, ...], look: Callable[[Any, Any], object]
) -> None:
    engine: Any = llama.through("generate")
    handle, plain = engine.prefill(ids[:40]), llama.prefill(ids[:40])
    engine.feed(handle, ids[40:])
    llama.feed(plain, ids[40:])
    look(engine, handle)
    assert handle.cache.get_seq_length() == 60
    assert llama.digest(llama.crop(handle, 60)) == llama.digest(llama.crop(plain, 60))


def test_memory_that_is_shared_before_what_waits_is_encoded_shows(llama: Engine, ids: tuple[int, ...]) -> None:
    engine: Any = llama.through("generate")
    handle = engine.prefill(ids[:40])
    alias = replace(handle, ids=list(handle.ids), num_fed=list(handle.num_fed))
    engine.feed(alias, ids[40:])
    assert engine.shares_storage(alias, handle)
    assert not engine.shares_storage(engine.fork(alias), handle)


@pytest.mark.parametrize("path", ["explicit", "default"])
def test_a_handle_may_change_its_path(llama: Engine, ids: tuple[int, ...], path: Any) -> None:
    handle = llama.prefill(ids[:20])
    llama.through("generate").feed(handle, ids[20:40])
    other = llama.through(path)
    other.feed(handle, ids[40:])
    plain = llama.prefill(ids[:20])
    for part in (ids[20:40], ids[40:]):
        llama.feed(plain, part)
    assert llama.distance(handle, plain) == 0.0
    assert other.decode(handle, 5) == llama.decode(plain, 5)


def test_a_state_with_nothing_waiting_has_its_first_token_already(llama: Engine, ids: tuple[int, ...]) -> None:
    engine, plain = llama.through("generate"), llama.prefill(ids)
    for budget in (1, 2, 6):
        found = engine.decode(engine.prefill(ids), budget, STREAM)
        assert found.ids == llama.decode(llama.fork(plain), budget, STREAM).ids


def test_generate_stops_at_the_end_of_the_sequence(smollm2: Any) -> None:
    prompt = smollm2.render((Message("user", "What is the capital of France?"),)).ids
    engine = smollm2.through("generate")
    handle = engine.prefill(prompt[:5])
    engine.feed(handle, prompt[5:])
    plain = smollm2.prefill(prompt[:5])
    smollm2.feed(plain, prompt[5:])
    found, expected = engine.decode(handle, 24), smollm2.decode(plain, 24)
    assert (found.ids, found.stop) == (expected.ids, expected.stop)
    assert found.stop == "eos"
    assert found.top2_margin == pytest.approx(expected.top2_margin, abs=1e-3)
    assert handle.ledger == prompt + found.ids


def test_the_model_s_own_generation_settings_do_not_colour_the_reply(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...]
) -> None:
    engine: Any = engines.load(tiny_spec("llama"), num_threads=1)
    plain = engine.decode(engine.prefill(ids), 8).ids
    settings = engine._model.generation_config
    settings.repetition_penalty, settings.do_sample, settings.bad_words_ids = 5.0, True, [[plain[0]]]
    found = engine.through("generate")
    handle = found.prefill(ids[:40])
    found.feed(handle, ids[40:])
    assert found.decode(handle, 8).ids == plain
    assert engine._model.generation_config is settings


def test_a_cache_that_shrank_behind_the_ledger_is_caught_before_generate_feeds_it(
    llama: Engine, ids: tuple[int, ...]
) -> None:
    engine: Any = llama.through("generate")
    handle = engine.prefill(ids[:40])
    engine.feed(handle, ids[40:])
    handle.cache.crop(-1)
    with pytest.raises(IsolationError, match=r"^ledger_mismatch: "):
        engine.decode(handle, 3)


# kv_cache_facts, fact 5: why the ledger, and not a new render, is what `generate` is given


@pytest.mark.parametrize(("length", "fed_from"), [(55, 40), (30, 10), (40, 0)], ids=["longer", "shorter", "as long"])
def test_generate_with_a_kept_cache_compares_lengths_and_never_tokens(
    llama: Any, ids: tuple[int, ...], length: int, fed_from: int
) -> None:
    """A stale cache of 40 tokens under a prompt that has nothing in common with it: nothing is raised.

    A longer prompt loses its first 40 tokens, whatever they are, and its tail goes behind the branch. A shorter one
    loses as many as it is too short by, one of equal length none, and both are read at positions that are not the
    cache's.

    Qwen3#819: a prompt that is shorter than the cache.
    """
    handle: Any = llama.prefill(ids[:40])
    prompt = tuple(reversed(ids))[:length]
    with forwards(llama) as calls:
        llama._model.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, length, dtype=torch.long),
            max_new_tokens=1,
            do_sample=False,
            pad_token_id=0,
            **{llama._kind.keyword: handle.cache},
        )
    (call,) = calls
    assert tuple(call["input_ids"][0].tolist()) == prompt[fed_from:]
    assert handle.cache.get_seq_length() == 40 + length - fed_from
    assert (call["position_ids"][0, 0].item() == 40) is (length > 40)
    if length > 40:
        stale = llama.prefill(ids[:40])
        llama.feed(stale, prompt[fed_from:])
        assert kv.distance(handle.cache, stale.cache) == 0.0
