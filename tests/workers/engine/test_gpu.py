"""On CUDA as on a CPU: the same tokens where the state is the same, and Layer 1 sees what was left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workers import arms, engine
from workers.bench import Bench
from workers.engine import Decoded, Engine
from workers.spec import Device, ModelSpec

pytestmark = pytest.mark.gpu

RESTORED = ("fresh", "truncate", "checkpoint")


def decided(states: Bench, name: str) -> Decoded:
    arm = arms.get(name)
    handle = arm.prepare(states)
    if not arm.is_one_pass:
        states.engine.feed(handle, states.split.delta_ids)
    return states.engine.decode(handle, 12)


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
