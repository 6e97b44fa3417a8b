"""The crop that reports success: exact for keys and convolutions, and a leak for whatever is recurrent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from workers.engine import Engine
from workers.engine import cache as kv
from workers.engine.handle import CacheHandle

Tiny = Callable[[str], Engine]
KEPT = 40
ROLLED_BACK = ["llama", "mistral", "gemma2", "llama4_text", "lfm2"]
KEPT_BY_RECURRENCE = ["falcon_h1", "qwen3_next", "jamba", "mamba"]


def cropped(engine: Engine, ids: tuple[int, ...]) -> Any:
    """A session that recorded its past, explored, and was cropped back."""
    session = engine.prefill(ids[:KEPT], records_past=True)
    engine.feed(session, ids[KEPT:])
    before = engine.digest(session)
    back = engine.crop(session, KEPT)
    assert engine.digest(session) == before
    assert back.ledger == ids[:KEPT]
    return back


@pytest.mark.parametrize("architecture", ROLLED_BACK)
def test_what_keeps_its_past_is_rolled_back_exactly(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    assert engine.distance(cropped(engine, ids), engine.prefill(ids[:KEPT])) == 0.0


@pytest.mark.parametrize("architecture", KEPT_BY_RECURRENCE)
def test_a_recurrent_state_stays_where_the_branch_left_it(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """transformers#49036: nothing is raised, and lengths agree."""
    engine = tiny(architecture)
    back, committed, explored = cropped(engine, ids), engine.prefill(ids[:KEPT]), engine.prefill(ids)
    assert (engine.distance(back, committed) or 0) > 100 * engine.facts.layer1_tolerance
    ours, clean, dirty = (dict(kv.tensors(handle.cache)) for handle in (back, committed, explored))  # type: ignore[attr-defined]
    for name in ours:
        if "recurrent" in name:
            torch.testing.assert_close(ours[name], dirty[name], rtol=1e-3, atol=1e-5)
            assert not torch.allclose(ours[name], clean[name], rtol=1e-3, atol=1e-5)
        else:
            assert torch.equal(ours[name], clean[name])


@pytest.mark.parametrize("architecture", ["mistral", "gemma2", "llama4_text", "lfm2", "falcon_h1"])
def test_a_recording_that_began_too_late_is_no_committed_state(
    tiny: Tiny, ids: tuple[int, ...], architecture: str
) -> None:
    """transformers#47447: the crop then takes keys away that it should keep, and every length is the right one."""
    engine: Any = tiny(architecture)
    session = CacheHandle(engine._owner, DynamicCache(config=engine._kind.config), records_past=True)
    engine.feed(session, ids)
    session.cache.activate_past_recording()
    late = engine.crop(session, KEPT)
    assert late.cache.get_seq_length() == KEPT
    assert engine.distance(late, engine.prefill(ids[:KEPT])) is None


def test_a_windowed_layer_keeps_no_more_than_it_attends_to(tiny: Tiny, ids: tuple[int, ...]) -> None:
    engine = tiny("llama4_text")
    back = cropped(engine, ids)
    window = engine.facts.window_tokens
    assert window is not None
    assert {tensor.shape[-2] for _, tensor in kv.tensors(back.cache)} == {window - 1}


@pytest.mark.parametrize("change", ["value", "place", "count"])
def test_a_fault_inside_the_window_is_seen(tiny: Tiny, ids: tuple[int, ...], change: str) -> None:
    engine = tiny("mistral")
    session = engine.prefill(ids, records_past=True)
    back, reference = engine.crop(session, 55), engine.prefill(ids[:55])
    assert engine.distance(back, reference) == 0.0
    layer = back.cache.layers[1]  # type: ignore[attr-defined]
    with torch.inference_mode():
        if change == "value":
            layer.keys[..., 0, :] += 1
        elif change == "place":
            layer.keys = layer.keys.roll(1, -2)
        else:
            layer.keys = layer.keys[..., 1:, :]
    distance = engine.distance(back, reference)
    assert distance is None or distance > engine.facts.layer1_tolerance


def test_a_fork_of_a_recording_still_records(tiny: Tiny, ids: tuple[int, ...]) -> None:
    engine = tiny("lfm2")
    session = engine.prefill(ids[:KEPT], records_past=True)
    child = engine.fork(session)
    engine.feed(child, ids[KEPT:])
    assert engine.distance(engine.crop(child, KEPT), engine.prefill(ids[:KEPT])) == 0.0


@pytest.mark.parametrize("architecture", ["falcon_h1", "lfm2", "mamba"])
def test_recording_changes_no_number(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    engine = tiny(architecture)
    plain, recording = (engine.prefill(ids[:KEPT], records_past=records) for records in (False, True))
    for handle in (plain, recording):
        engine.feed(handle, ids[KEPT:])
    assert engine.decode(plain, 8).ids == engine.decode(recording, 8).ids
