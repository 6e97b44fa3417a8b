"""A masked position gets no attention: whatever stands there, nothing that is fed afterwards can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from workers import engine as engines
from workers.engine import Engine
from workers.engine import cache as kv
from workers.engine.masking import clipped, deface, joined
from workers.errors import Unsupported
from workers.spec import ModelSpec
from workers.stream import Stream

Tiny = Callable[[str], Engine]
START, STOP, SIZE = 50, 54, 56
"""Inside the last chunk of 16, which is all that a chunked layer looks at."""

_HEADS = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
_MLA = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
_ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1}
OTHERS: dict[str, dict[str, Any]] = {
    "deepseek_v3": _HEADS | _MLA | _ROUTED | {"num_key_value_heads": 4, "first_k_dense_replace": 1},
    "qwen3_moe": _HEADS | {"head_dim": 16, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2},
    "opt": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}
    | {"word_embed_proj_dim": 64},
}
MASKED = ["llama", "mistral", "gemma2", "llama4_text", *OTHERS]
REFUSED = ["falcon_h1", "qwen3_next", "jamba", "mamba", "lfm2"]


@pytest.fixture(scope="module")
def load(tiny: Tiny, tiny_spec: Callable[..., ModelSpec]) -> Callable[..., Any]:
    """Architecture and attention → an engine, loaded once."""
    known: dict[tuple[str, str], Any] = {}

    def get(architecture: str, attention: str = "") -> Any:
        if architecture not in OTHERS and not attention:
            return tiny(architecture)
        key = architecture, attention
        if key not in known:
            changes = {"attention": attention} if attention else {}
            spec = tiny_spec(architecture, config=OTHERS.get(architecture, {}), **changes)
            known[key] = engines.load(spec, num_threads=1)
        return known[key]

    return get


def rows(engine: Any, handle: Any, ids: tuple[int, ...]) -> torch.Tensor:
    """Logits after each id that is fed."""
    fed: torch.Tensor = engine._feed(handle, ids, keeps_all=True)
    return fed


@pytest.mark.parametrize("records_past", [False, True], ids=["", "recording"])
@pytest.mark.parametrize("architecture", MASKED)
def test_what_stands_at_masked_positions_changes_no_logit_and_beside_them_it_does(
    load: Callable[..., Any], ids: tuple[int, ...], architecture: str, records_past: bool
) -> None:
    engine = load(architecture)
    session = engine.prefill(ids[:SIZE], records_past=records_past)
    clean, behind, beside = (engine.mask(session, START, STOP) for _ in range(3))
    with torch.inference_mode():
        deface(behind.cache, SIZE, START, STOP)
        deface(beside.cache, SIZE, STOP, SIZE)
    expected = rows(engine, clean, ids[SIZE:])
    assert torch.equal(rows(engine, behind, ids[SIZE:]), expected)
    assert not torch.equal(rows(engine, beside, ids[SIZE:]), expected)
    assert engine.decode(behind, 8) == engine.decode(clean, 8)


@pytest.mark.parametrize("architecture", ["llama", "mistral", "llama4_text"])
def test_without_a_mask_what_stands_there_shows(
    load: Callable[..., Any], ids: tuple[int, ...], architecture: str
) -> None:
    engine = load(architecture)
    session, other = engine.prefill(ids[:SIZE]), engine.prefill(ids[:SIZE])
    with torch.inference_mode():
        deface(other.cache, SIZE, START, STOP)
    assert not torch.equal(rows(engine, other, ids[SIZE:]), rows(engine, session, ids[SIZE:]))


@pytest.mark.parametrize("architecture", ["llama", "mistral", "gemma2", "llama4_text", "deepseek_v3"])
def test_the_attention_weights_of_masked_positions_are_zero(
    load: Callable[..., Any], ids: tuple[int, ...], architecture: str
) -> None:
    engine = load(architecture, "eager")
    session = engine.prefill(ids[:SIZE])
    weights: dict[bool, list[torch.Tensor]] = {}
    for is_masked in (True, False):
        handle = engine.mask(session, START, STOP) if is_masked else engine.fork(session)
        inputs = engine._explicit(handle, SIZE, len(ids) - SIZE, keeps_all=False)
        with torch.inference_mode():
            weights[is_masked] = engine._model(
                input_ids=torch.tensor([ids[SIZE:]]),
                use_cache=True,
                output_attentions=True,
                **{engine._kind.keyword: handle.cache},
                **inputs,
            ).attentions
    for masked, plain in zip(weights[True], weights[False], strict=True):
        # `[1, heads, fed, kept]`; a windowed layer keeps the last positions only.
        behind = masked.shape[-1] - len(ids)
        span = slice(max(START + behind, 0), STOP + behind)
        assert masked[..., span].abs().max() == 0.0
        assert plain[..., span].abs().max() > 0.0
        assert torch.allclose(masked.sum(-1), torch.ones(1), atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "mistral", "deepseek_v3"])
def test_positions_are_kept(load: Callable[..., Any], ids: tuple[int, ...], architecture: str) -> None:
    """The first layer's keys depend on a token and its position alone."""
    engine = load(architecture)
    session = engine.prefill(ids[:SIZE])
    masked, plain = engine.mask(session, START, STOP), engine.fork(session)
    for handle in (masked, plain):
        engine.feed(handle, ids[SIZE:])
    assert torch.equal(masked.cache.layers[0].keys, plain.cache.layers[0].keys)
    assert not torch.equal(masked.cache.layers[1].values, plain.cache.layers[1].values)


@pytest.mark.parametrize("architecture", REFUSED)
def test_what_folds_its_past_into_a_state_cannot_be_masked(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    session = engine.prefill(ids)
    before = engine.digest(session)
    for _ in range(2):
        with pytest.raises(Unsupported, match="cannot be masked: its state keeps what went into it"):
            engine.mask(session, 5, 9)
    assert engine.digest(session) == before


# The proof, tried both ways


def test_a_model_that_swallows_its_mask_is_refused(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = engines.load(tiny_spec("llama"), num_threads=1)
    engine._model.register_forward_pre_hook(
        lambda module, args, kwargs: (args, kwargs | {"attention_mask": None}), with_kwargs=True
    )
    with pytest.raises(Unsupported, match="attends to masked positions"):
        engine.mask(engine.prefill(ids), 5, 9)


def test_a_model_whose_mask_hides_everything_is_refused(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...]
) -> None:
    engine: Any = engines.load(tiny_spec("llama"), num_threads=1)

    def hide_all(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = kwargs.get("attention_mask")
        if mask is not None:
            mask[:, : -kwargs["input_ids"].shape[1]] = 0
        return args, kwargs

    engine._model.register_forward_pre_hook(hide_all, with_kwargs=True)
    with pytest.raises(Unsupported, match="hides more than it is asked to"):
        engine.mask(engine.prefill(ids), 5, 9)


def test_positions_that_come_from_the_mask_are_refused(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...]
) -> None:
    config = {"hidden_size": 64, "n_layer": 2, "n_head": 4}
    engine = engines.load(tiny_spec("bloom", config=config, attention="eager"), num_threads=1)
    with pytest.raises(Unsupported, match="a mask would move its tokens"):
        engine.mask(engine.prefill(ids), 5, 9)


def test_a_kernel_in_which_nothing_is_proven_is_refused(llama: Any, ids: tuple[int, ...]) -> None:
    session = llama.prefill(ids)
    llama._refusals.pop("mask", None)
    honest = llama._model.config._attn_implementation
    try:
        llama._model.config._attn_implementation = "flash_attention_2"
        with pytest.raises(Unsupported, match="not proven under attention=flash_attention_2; there is eager, sdpa"):
            llama.mask(session, 5, 9)
    finally:
        llama._model.config._attn_implementation = honest
        llama._refusals.pop("mask", None)


# The handle


@pytest.mark.parametrize("architecture", ["llama", "scripted"])
@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 5), (9, 5), (50, 61)])
def test_a_span_that_makes_no_sense_is_refused(
    tiny: Tiny, ids: tuple[int, ...], architecture: str, start: int, stop: int
) -> None:
    engine = tiny(architecture)
    with pytest.raises(ValueError, match="cannot mask"):
        engine.mask(engine.prefill(ids), start, stop)


@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_a_masked_handle_is_its_own_and_its_parent_stays(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    session = engine.prefill(ids)
    before = engine.digest(session)
    masked = engine.mask(session, 5, 9)
    assert not engine.shares_storage(masked, session)
    assert (masked.ledger, masked.passes) == (session.ledger, session.passes)
    assert masked.root is session.root
    assert engine.digest(masked) != before
    engine.feed(masked, ids[:3])
    assert engine.digest(session) == before


def test_a_masked_handle_predicts_nothing_until_it_is_fed(llama: Engine, ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="until it is fed"):
        llama.decode(llama.mask(llama.prefill(ids), 5, 9), 1)


@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_a_mask_goes_with_every_fork_and_crop(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    masked = engine.mask(engine.prefill(ids[:30]), 5, 9)
    fork = engine.fork(masked)
    engine.feed(fork, ids[30:40])
    cropped = engine.crop(fork, 30)
    assert engine.digest(cropped) == engine.digest(masked)
    assert engine.digest(engine.crop(fork, 7)) == engine.digest(engine.mask(engine.crop(fork, 7), 5, 7))
    assert engine.digest(engine.crop(fork, 5)) == engine.digest(engine.crop(engine.prefill(ids[:30]), 5))


@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_two_masks_are_one_whatever_their_order(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    session = engine.prefill(ids)
    one = engine.mask(engine.mask(session, 5, 9), 7, 15)
    other = engine.mask(engine.mask(session, 9, 15), 5, 12)
    assert engine.digest(one) == engine.digest(other) == engine.digest(engine.mask(session, 5, 15))


@pytest.mark.parametrize("architecture", ["llama", "scripted"])
def test_layer_1_calls_a_masked_state_another_one(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """Harm may be blocked and the state is still broken: unequal lengths, and so it is with unequal masks."""
    engine = tiny(architecture)
    session = engine.prefill(ids)
    masked = engine.mask(session, 40, 60)
    assert engine.distance(masked, engine.prefill(ids[:40])) is None
    assert engine.distance(masked, session) is None
    assert engine.distance(masked, engine.mask(session, 40, 60)) == 0.0


def test_spans_are_joined_sorted_and_clipped() -> None:
    assert joined(((10, 12),), 2, 4) == ((2, 4), (10, 12))
    assert joined(((2, 4), (10, 12)), 4, 10) == ((2, 12),)
    assert joined(((2, 9),), 3, 4) == ((2, 9),)
    assert clipped(((2, 4), (10, 12)), 11) == ((2, 4), (10, 11))
    assert clipped(((2, 4), (10, 12)), 10) == ((2, 4),)


# The paths


def test_the_default_path_takes_no_mask(llama: Engine, ids: tuple[int, ...]) -> None:
    engine = llama.through("default")
    with pytest.raises(Unsupported, match="takes no mask"):
        engine.mask(engine.prefill(ids), 5, 9)
    masked = llama.mask(llama.prefill(ids), 5, 9)
    with pytest.raises(Unsupported, match="takes no mask"):
        engine.feed(masked, ids[:2])


@pytest.mark.parametrize("stream", [None, Stream(1.0, 0, "who", 0)], ids=["greedy", "drawn"])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "llama4_text", "deepseek_v3"])
def test_generate_replies_behind_a_mask_as_our_own_forward_does(
    load: Callable[..., Any], ids: tuple[int, ...], architecture: str, stream: Stream | None
) -> None:
    """unsloth#4078, TransformerLens#1005: positions that do not follow the mask, or follow it when they should not."""
    plain = load(architecture)
    engine = plain.through("generate")
    session = plain.prefill(ids[:SIZE])
    found, expected = (it.mask(session, START, STOP) for it in (engine, plain))
    engine.feed(found, ids[SIZE:])
    plain.feed(expected, ids[SIZE:])
    assert engine.score(found, "SEND x") == pytest.approx(plain.score(expected, "SEND x"), abs=1e-4)
    assert engine.decode(found, 8, stream).ids == plain.decode(expected, 8, stream).ids
    assert {name for name, _ in kv.tensors(found.cache)} == {name for name, _ in kv.tensors(expected.cache)}


def test_the_null_engine_does_not_read_what_is_masked(tiny: Tiny) -> None:
    engine = tiny("scripted")
    text = "Only to a-b. Send it to c-d."
    handle = engine.prefill(tuple(map(ord, text)))
    masked = engine.mask(handle, 12, len(text))
    assert engine.decode(engine.fork(handle), 64).text.endswith("TO c-d")
    assert engine.decode(engine.fork(masked), 64).text.endswith("TO a-b")
    assert engine.score(masked, "c-d") < engine.score(handle, "c-d")
