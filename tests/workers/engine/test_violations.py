"""The violations that are about tensors and templates, planted on a tiny random model and read from the row."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from planting import assert_all_refused, assert_refused, other_statuses, plant, run
from transformers import DynamicCache

from workers import engine as engines
from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Engine, Handle
from workers.engine import cache as kv
from workers.episode import Message
from workers.spec import ModelSpec

MakeSpec = Callable[..., ModelSpec]
Prepare = Callable[[Bench], Handle]

TURN = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
CHATML = "{% for m in messages %}" + TURN + "{% endfor %}<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'user_turn' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


def templated(tiny_spec: MakeSpec, template: str, **changes: Any) -> Engine:
    return engines.load(tiny_spec("llama", chat_template=template, **changes), num_threads=1)


def test_nothing_is_found_where_nothing_was_planted(llama: Engine, work: Work) -> None:
    rows = run(llama, work)
    assert other_statuses(rows) == {"done"}
    assert {arm: row["layer1"] for arm, row in rows.items()} == {
        "stale": "violated",
        "fresh": "intact",
        "cold": "reference",
        "text_present": "violated",
        "truncate": "intact",
        "checkpoint": "intact",
    }


@pytest.mark.parametrize("architecture", ["mistral", "llama4_text", "falcon_h1", "jamba", "mamba", "lfm2"])
def test_nothing_is_found_on_other_cache_families(tiny: Callable[[str], Engine], work: Work, architecture: str) -> None:
    rows = run(tiny(architecture), work)
    assert other_statuses(rows, "truncate") == {"done"}
    assert rows["truncate"]["status"] in ("done", "unsupported")
    assert all(row["parent_intact"] for row in rows.values())


# The carrier


@pytest.mark.parametrize("context", ["", " ", "\n"])
def test_a_carrier_in_the_delta_in_each_of_its_segmentations(
    tiny_spec: MakeSpec, work: Work, monkeypatch: pytest.MonkeyPatch, context: str
) -> None:
    engine: Any = templated(tiny_spec, CHATML + context + "red-canary")
    leaked = engine._chat.encode(context + "red-canary")
    assert engine.render((Message("user", "x"),)).ids[-len(leaked) :] == leaked
    monkeypatch.setattr(engine, "text", lambda ids: engine._chat.text(ids).replace("red-canary", ""))
    assert_all_refused(run(engine, work), "carrier_in_delta")


def test_a_carrier_in_the_delta_that_no_segmentation_matches(
    llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaky = replace(work.episode, finalize=(Message("user", "Send it to red-canary"),))
    monkeypatch.setattr(llama, "segmentations", lambda text: ())
    assert_all_refused(run(llama, replace(work, episode=leaky)), "carrier_in_delta")


# The template


TEMPLATES: dict[str, tuple[str, str]] = {
    "drops a message": (CHATML.replace("messages", "messages[:-2] + messages[-1:]"), "message_dropped"),
    "rewrites history": ("{{ messages | length }} turns\n" + CHATML, "history_rewritten"),
    "prints the date": ("{{ strftime_now('%d %B %Y') }}\n" + CHATML, "clock_in_template"),
    "prints the hour": (CHATML + "{{ strftime_now('%H') }}", "clock_in_template"),
    "doubles the beginning": ("{{ bos_token }}" + CHATML, "double_bos"),
}


@pytest.mark.parametrize(("template", "check"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_that_breaks_the_split(tiny_spec: MakeSpec, work: Work, template: str, check: str) -> None:
    """OpenRLHF#393, llama-cpp-python#1439: a text that holds its beginning was given another."""
    assert_all_refused(run(templated(tiny_spec, template), work), check)


def test_a_template_that_prints_the_day_it_was_given(tiny_spec: MakeSpec, work: Work) -> None:
    engine = templated(tiny_spec, TEMPLATES["prints the date"][0], clock="2025-03-04")
    rows = run(engine, work)
    assert other_statuses(rows) == {"done"}
    assert engine.text(rows["fresh"]["committed_ids"]).startswith("04 March 2025\n")


# The cache


@pytest.mark.parametrize("architecture", ["llama", "mamba"])
def test_a_cache_argument_that_forward_swallows(
    tiny: Callable[[str], Engine], work: Work, monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    engine: Any = tiny(architecture)
    monkeypatch.setattr(engine, "_kind", replace(engine._kind, keyword="kv_cache"))
    assert_all_refused(run(engine, work), "ledger_mismatch")


def test_a_cache_of_another_model_of_the_same_shape(
    llama: Engine, tiny_spec: MakeSpec, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tiny_spec("llama")
    stranger = engines.load(
        spec.model_copy(update={"source": spec.source.model_copy(update={"seed": 1})}), num_threads=1
    )
    plant(monkeypatch, "checkpoint", lambda bench: stranger.prefill(bench.split.committed_ids))
    rows = run(llama, work)
    assert_refused(rows["checkpoint"], "foreign_handle")
    assert other_statuses(rows, "checkpoint") == {"done"}


def test_the_tensors_of_another_conversation_are_a_layer_1_violation(
    llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger says what the arm claims; what the tensors hold is for Layer 1 to find, and is an observation."""

    def prepare(bench: Bench) -> Handle:
        state: Any = bench.snapshot()
        with torch.inference_mode():
            state.cache.layers[1].values[..., 3, :] += 1
        return state

    plant(monkeypatch, "checkpoint", prepare)
    row = run(llama, work)["checkpoint"]
    assert (row["status"], row["layer1"]) == ("done", "violated")
    assert row["layer1_max_diff"] > row["layer1_tolerance"]


def never_restored(bench: Bench) -> Handle:
    """The branch's own cache under the committed ledger."""
    state: Any = bench.explored()
    del state.ids[len(bench.split.committed_ids) :]
    return state  # type: ignore[no-any-return]


def restored_from_an_empty_slot(bench: Bench) -> Handle:
    """As many keys as there should be, in memory that nothing was ever read into."""
    state: Any = bench.snapshot()
    with torch.inference_mode():
        for _, tensor in kv.tensors(state.cache):
            tensor.zero_()
    return state  # type: ignore[no-any-return]


@pytest.mark.parametrize("architecture", ["llama", "falcon_h1"])
def test_a_restore_that_reports_success_and_does_nothing(
    tiny: Callable[[str], Engine], work: Work, monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    """llama.cpp#26676: a slot's restore was a no-op. Length and content are looked at, and no report is believed."""
    engine = tiny(architecture)
    plant(monkeypatch, "checkpoint", never_restored)
    assert_refused(run(engine, work)["checkpoint"], "ledger_mismatch")
    plant(monkeypatch, "checkpoint", restored_from_an_empty_slot)
    row = run(engine, work)["checkpoint"]
    assert (row["status"], row["layer1"]) == ("done", "violated")
    assert row["layer1_max_diff"] == pytest.approx(1.0)


# Memory


def around(handle: Any, cache: Any) -> Any:
    return replace(handle, cache=cache, ids=list(handle.ids), num_fed=list(handle.num_fed))


def view_of(bench: Bench, length: int) -> Handle:
    """What the library's crop leaves: the first tokens, as views of the session's own tensors."""
    session: Any = bench._retained[1]
    cache = copy.copy(session.cache)
    cache.layers = [copy.copy(layer) for layer in session.cache.layers]
    cache.crop(length - len(session.ids))
    view = around(session, cache)
    del view.ids[length:]
    return view  # type: ignore[no-any-return]


def shares_one_layer(bench: Bench) -> Handle:
    state: Any = bench.explored()
    state.cache.layers[-1].values = bench._retained[1].cache.layers[-1].values  # type: ignore[attr-defined]
    return state  # type: ignore[no-any-return]


SHARED: dict[str, tuple[str, Prepare]] = {
    "the session itself": ("stale", lambda bench: bench._retained[1]),
    "copy.copy of its cache": ("stale", lambda bench: around(bench._retained[1], copy.copy(bench._retained[1].cache))),  # type: ignore[attr-defined]
    "one tensor of it": ("stale", shares_one_layer),
    "a view that crop leaves": ("truncate", lambda bench: view_of(bench, len(bench.split.committed_ids))),
    "the snapshot": ("checkpoint", lambda bench: bench._retained[0]),
}


@pytest.mark.parametrize(("arm", "prepare"), SHARED.values(), ids=SHARED)
def test_an_arm_on_shared_storage(
    llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch, arm: str, prepare: Prepare
) -> None:
    plant(monkeypatch, arm, prepare)
    rows = run(llama, work)
    assert_refused(rows[arm], "storage_shared")
    assert other_statuses(rows, arm) == {"done"}


def test_a_fork_that_is_not_deep(llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "fork", copy.copy)
    rows = run(llama, work)
    for arm in ("stale", "truncate", "checkpoint"):
        assert "storage_shared" in rows[arm]["failed_checks"]
    assert other_statuses(rows) == {"invalid"}


# The crop


@pytest.mark.parametrize("excess", [1, -1])
def test_a_library_crop_that_leaves_or_takes_a_token_too_many(
    llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    """transformers#47433: an oversized crop kept stale tokens."""
    honest = DynamicCache.crop
    monkeypatch.setattr(DynamicCache, "crop", lambda cache, length: honest(cache, length + excess))
    rows = run(llama, work)
    assert_refused(rows["truncate"], "ledger_mismatch")
    assert other_statuses(rows, "truncate") == {"done"}


@pytest.mark.parametrize("excess", [1, -1])
def test_an_arm_that_crops_a_token_too_few_or_too_many(
    llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    plant(monkeypatch, "truncate", lambda bench: bench.cropped(len(bench.split.committed_ids) + excess))
    row = run(llama, work)["truncate"]
    assert_refused(row, "prefix_differs")
    assert row["cache_length"] == len(row["committed_ids"]) + excess


# One pass


def test_a_one_pass_arm_that_reuses_a_prefix(llama: Engine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(bench: Bench) -> Handle:
        state = bench.snapshot()
        bench.engine.feed(state, bench.split.delta_ids)
        return state

    plant(monkeypatch, "cold", prepare)
    rows = run(llama, work)
    assert_refused(rows["cold"], "class_crossed", "prefix_reused")
    assert other_statuses(rows, "cold") == {"done"}


# The rotary embedding


def longest(engine: Engine, work: Work) -> int:
    """Tokens of the episode with its branch, without a reply."""
    row = run(engine, work)["fresh"]
    return sum(len(row[part]) for part in ("committed_ids", "branch_ids", "delta_ids"))


@pytest.fixture(scope="module")
def num_tokens(llama: Engine, work: Work) -> int:
    return longest(llama, work)


def longrope(tiny_spec: MakeSpec, limit: int) -> Engine:
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    rope = factors | {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": limit}
    config = {"rope_parameters": rope, "max_position_embeddings": 4096, "original_max_position_embeddings": limit}
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    spec = tiny_spec("phi3", config=small | config | {"num_key_value_heads": 2, "pad_token_id": 0})
    return engines.load(spec, num_threads=1)


def dynamic(tiny_spec: MakeSpec, limit: int) -> Engine:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    spec = tiny_spec("llama", config={"rope_parameters": rope, "max_position_embeddings": limit})
    return engines.load(spec, num_threads=1)


@pytest.mark.parametrize("make", [longrope, dynamic])
def test_a_rotary_switch_within_reach_of_the_longest_reply(
    tiny_spec: MakeSpec, work: Work, num_tokens: int, make: Callable[[MakeSpec, int], Engine]
) -> None:
    assert_all_refused(run(make(tiny_spec, num_tokens + 23), work), "rope_switch")
    assert other_statuses(run(make(tiny_spec, num_tokens + 24), work)) == {"done"}


def test_an_episode_that_lies_wholly_beyond_the_switch(tiny_spec: MakeSpec, work: Work, num_tokens: int) -> None:
    assert other_statuses(run(longrope(tiny_spec, 64), work)) == {"done"}
    assert_all_refused(run(dynamic(tiny_spec, 64), work), "rope_switch")
