"""On CUDA as on a CPU: the same tokens where the state is the same, and Layer 1 sees what was left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pooling import Case, mixed

from workers import arms, engine
from workers.bench import Bench
from workers.engine import Ask, Decoded, Engine
from workers.engine.masking import deface
from workers.engine.pool import lane
from workers.errors import Unsupported
from workers.spec import Device, ModelSpec
from workers.stream import Stream

pytestmark = pytest.mark.gpu

RESTORED = ("fresh", "truncate", "checkpoint")


STREAM = Stream(temperature=1.0, seed=0, question="who", draw=0)


def decided(states: Bench, name: str, stream: Stream | None = None) -> Decoded:
    arm = arms.get(name)
    handle = arm.prepare(states)
    if not arm.is_one_pass:
        states.engine.feed(handle, states.split.delta_ids)
    return states.engine.decode(handle, 12, stream)


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_a_restored_state_decides_as_cold_and_a_stale_one_as_the_open_branch(
    tiny_spec: Callable[..., ModelSpec], bench: Callable[[Engine], Bench], architecture: str
) -> None:
    states = bench(engine.load(tiny_spec(architecture, device=Device(gpus=1)), num_threads=1))
    replies = {name: decided(states, name).ids for name in (*RESTORED, "cold", "stale", "text_present")}
    assert {replies[name] for name in RESTORED} == {replies["cold"]}
    assert replies["stale"] == replies["text_present"] != replies["cold"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layer_1_tells_a_restored_state_from_a_stale_one(
    tiny_spec: Callable[..., ModelSpec], bench: Callable[[Engine], Bench], dtype: str
) -> None:
    states = bench(engine.load(tiny_spec("llama", device=Device(gpus=1), dtype=dtype), num_threads=1))
    for name in RESTORED:
        distance = states.engine.distance(arms.get(name).prepare(states), states.reference)
        assert distance is not None
        assert distance <= states.engine.facts.layer1_tolerance
    assert states.engine.distance(arms.get("stale").prepare(states), states.reference) is None


def test_a_copy_on_the_device_shares_no_memory(
    tiny_spec: Callable[..., ModelSpec], bench: Callable[[Engine], Bench]
) -> None:
    states = bench(engine.load(tiny_spec("llama", device=Device(gpus=1)), num_threads=1))
    session = states.engine.prefill(states.split.committed_ids)
    copy = states.engine.fork(session)
    before = states.engine.digest(session)
    states.engine.feed(copy, states.split.branch_ids)
    assert states.engine.digest(session) == before
    assert not states.engine.shares_storage(session, copy)


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_arms_in_the_same_state_draw_the_same_tokens(
    tiny_spec: Callable[..., ModelSpec], bench: Callable[[Engine], Bench], architecture: str
) -> None:
    states = bench(engine.load(tiny_spec(architecture, device=Device(gpus=1)), num_threads=1))
    for one, other in (("stale", "text_present"), ("fresh", "cold")):
        assert decided(states, one, STREAM).ids == decided(states, other, STREAM).ids


@pytest.mark.parametrize("stream", [None, STREAM], ids=["greedy", "drawn"])
@pytest.mark.parametrize("path", ["default", "generate"])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "falcon_h1"])
def test_every_path_replies_alike(
    tiny_spec: Callable[..., ModelSpec],
    bench: Callable[[Engine], Bench],
    architecture: str,
    path: Any,
    stream: Stream | None,
) -> None:
    states = bench(engine.load(tiny_spec(architecture, device=Device(gpus=1)), num_threads=1))
    ours = {name: decided(states, name, stream).ids for name in ("stale", "fresh", "cold")}
    states.engine = states.engine.through(path)
    assert {name: decided(states, name, stream).ids for name in ours} == ours


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_what_stands_at_masked_positions_changes_no_logit_or_no_mask_is_given(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...], architecture: str, attention: str, dtype: str
) -> None:
    """A kernel that does not prove itself on the device is refused, which is all that may be asked of it."""
    spec = tiny_spec(architecture, device=Device(gpus=1), attention=attention, dtype=dtype)
    loaded: Any = engine.load(spec, num_threads=1)
    session = loaded.prefill(ids[:56])
    try:
        clean, behind = (loaded.mask(session, 20, 40) for _ in range(2))
    except Unsupported as lack:
        pytest.skip(str(lack))
    with torch.inference_mode():
        deface(behind.cache, 56, 20, 40)
    expected = loaded._feed(clean, ids[56:], keeps_all=True)
    assert torch.equal(loaded._feed(behind, ids[56:], keeps_all=True), expected)
    assert loaded.decode(behind, 8) == loaded.decode(clean, 8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_pool_reads_what_each_state_gives_alone(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...], dtype: str
) -> None:
    """Also where it looks at what was chosen once in several steps; in half precision by reading near ties again."""
    loaded: Any = engine.load(tiny_spec("llama", device=Device(gpus=1), dtype=dtype), num_threads=1)
    pool, cases = loaded.pool(is_batched=True), mixed()
    tickets = [pool.admit(case.made(loaded, ids), case.asks, case.texts) for case in cases]
    pool.drain()
    for ticket, case in zip(tickets, cases, strict=True):
        found, alone = ticket.answer(), case.alone(loaded, ids)
        assert [reply.ids for reply in found.replies] == [reply.ids for reply in alone.replies]
        if dtype == "float32":
            assert found.scores == pytest.approx(alone.scores, abs=1e-2)
        assert all(
            loaded.agrees(case.made(loaded, ids), ask, reply)
            for ask, reply in zip(case.asks, found.replies, strict=True)
        )


def test_the_steps_of_a_pool_wait_for_the_device_no_more_often_than_they_must(
    tiny_spec: Callable[..., ModelSpec], ids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: Any = engine.load(tiny_spec("llama", device=Device(gpus=1)), num_threads=1)
    pool = loaded.pool(is_batched=True)
    looks: list[int] = []
    honest = lane.read
    monkeypatch.setattr(lane, "read", lambda steps, *rest: (looks.append(len(steps)), honest(steps, *rest))[1])
    for case in [Case(20 + at, 3, (Ask(32),), start=at) for at in range(16)]:
        pool.admit(case.made(loaded, ids), case.asks)
    pool.drain()
    assert max(looks) > 1
    assert len(looks) < sum(looks)
