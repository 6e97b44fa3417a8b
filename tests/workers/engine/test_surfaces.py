"""Surfaces on real caches: where the abort happens changes neither the reply nor Layer 1."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workers import arms, surfaces
from workers.bench import Bench
from workers.engine import Engine
from workers.episode import Episode
from workers.errors import Unsupported
from workers.split import split

APPLICATIONS = ("session_app", "langgraph", "langgraph_sqlite")
FRAMEWORK = ("framework_default", "framework_generate")
NEED_EXPLICIT = {"provenance_mask"}
"""Arms that say which positions are attended to, which a framework's own loop does not."""
FAMILIES = ("llama", "gemma2", "falcon_h1", "mamba")
RESTORING = ("fresh", "checkpoint", "truncate")
Tiny = Callable[[str], Engine]
Found = tuple[tuple[int, ...], str]
"""Reply ids, and the digest of the state that was decided on."""


def opened(engine: Engine, episode: Episode, surface: str) -> Bench:
    return Bench(engine, split(engine, episode), surfaces.get(surface), episode)


def decided(bench: Bench, name: str) -> Found | None:
    """What an arm replies on a surface; None where its cache cannot do it."""
    arm = arms.get(name)
    try:
        state = arm.prepare(bench)
    except Unsupported:
        return None
    made = bench.engine.digest(state)
    decoded = bench.decide(
        state, lambda held: bench.engine.decode(bench.engine.fork(held), 12), is_one_pass=arm.is_one_pass
    )
    return decoded.ids, made


@pytest.mark.parametrize("surface", APPLICATIONS)
@pytest.mark.parametrize("architecture", FAMILIES)
def test_every_arm_decides_bit_for_bit_as_on_the_tensor_probe(
    tiny: Tiny, episode: Episode, architecture: str, surface: str
) -> None:
    engine = tiny(architecture)
    probe, bench = opened(engine, episode, "tensor_probe"), opened(engine, episode, surface)
    for name in arms.names():
        assert decided(bench, name) == decided(probe, name), name
    assert bench.is_intact()


@pytest.mark.parametrize("surface", FRAMEWORK)
def test_the_frameworks_own_loop_replies_as_the_tensor_probe(llama: Engine, episode: Episode, surface: str) -> None:
    probe, bench = opened(llama, episode, "tensor_probe"), opened(llama, episode, surface)
    for name in arms.names():
        ours, theirs = decided(bench, name), decided(probe, name)
        if ours is None or theirs is None:
            assert name in NEED_EXPLICIT
        else:
            assert ours[0] == theirs[0], name
    assert bench.is_intact()


@pytest.mark.parametrize("surface", [*APPLICATIONS, *FRAMEWORK])
def test_keeping_the_cache_violates_layer_1_and_restoring_it_does_not(
    llama: Engine, episode: Episode, surface: str
) -> None:
    bench = opened(llama, episode, surface)
    reference, tolerance = bench.reference, llama.facts.layer1_tolerance
    assert bench.engine.distance(arms.get("stale").prepare(bench), reference) is None
    for name in RESTORING:
        distance = bench.engine.distance(arms.get(name).prepare(bench), reference)
        assert distance is not None
        assert distance <= tolerance


@pytest.mark.parametrize("surface", ["session_app", "langgraph_sqlite"])
def test_the_real_model_decides_alike_in_an_application(smollm2: Engine, episode: Episode, surface: str) -> None:
    probe, bench = opened(smollm2, episode, "tensor_probe"), opened(smollm2, episode, surface)
    found = {name: decided(bench, name) for name in ("stale", "checkpoint")}
    assert found == {name: decided(probe, name) for name in found}
    assert found["stale"] != found["checkpoint"]
