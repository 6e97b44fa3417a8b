"""What an engine did before changes nothing that it does now: order, repetition and retries leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from planting import Row, run

from workers import surfaces
from workers.block import Block, Work
from workers.engine import Engine
from workers.errors import Unsupported
from workers.session import Mode, SessionApp
from workers.split import split
from workers.surfaces import Step

Tiny = Callable[[str], Engine]
RESTORING = [mode for mode in Mode if mode is not Mode.KEEP]
CUTS = (1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 47, 48, 49, 59)
"""Beside a convolution's kernel, a scan's chunk, a chunk of llama4_text and the windows."""
TIMES = ("prefill_ms", "restore_ms", "decode_ms")
every_family = pytest.mark.parametrize(
    "architecture",
    ["scripted", "llama", "mistral", "gemma2", "llama4_text", "falcon_h1", "qwen3_next", "jamba", "mamba", "lfm2"],
)


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'user_turn' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


def measured(rows: dict[str, Row]) -> dict[str, Row]:
    """Every column but the clock's, margins and Layer-1 distances to the last bit included."""
    return {arm: {key: value for key, value in row.items() if key not in TIMES} for arm, row in rows.items()}


@pytest.mark.parametrize("architecture", ["scripted", "llama", "falcon_h1", "mamba"])
def test_an_arm_s_first_run_on_a_model_is_its_every_run(tiny: Tiny, work: Work, architecture: str) -> None:
    """vllm#40896: the first request differed from all later ones. vllm#5543: a reply depended on earlier requests.

    sglang#4175: so the difference between two runs of one thing is measured, and it is none.
    """
    engine = tiny(architecture)
    turned = replace(work, trials=work.trials[::-1])
    first, second, backwards = run(engine, work), run(engine, work), run(engine, turned)
    assert measured(second) == measured(first)
    assert measured(backwards) == measured(first)


@pytest.mark.parametrize("surface", ["session_app", "framework_generate", "langgraph"])
def test_a_surface_s_first_run_is_its_every_run(llama: Engine, work: Work, surface: str) -> None:
    """vllm#40896, vllm#5543."""
    there = replace(work, episode=replace(work.episode, surface=surfaces.stamp(surfaces.get(surface))))
    first = run(llama, there)
    assert measured(run(llama, there)) == measured(first)


def begun(engine: Engine, work: Work) -> tuple[SessionApp, Step, Step]:
    """A session after its committed prefix, its branch and its finalize step."""
    parts, episode = split(engine, work.episode), work.episode
    app = SessionApp(engine)
    app.begin("desk", Step(episode.committed, parts.committed_ids))
    return app, Step(episode.branch, parts.branch_ids), Step(episode.finalize, parts.delta_ids)


@pytest.mark.parametrize("mode", RESTORING)
@every_family
def test_a_session_that_explored_and_aborted_thrice_is_one_that_never_did(
    tiny: Tiny, work: Work, architecture: str, mode: Mode
) -> None:
    """vllm#39146: cancelled and retried requests left the cache in another state than the first found.

    llama.cpp#28007: a crop that is refused is not passed over; the branch stays open until something restores.
    """
    engine = tiny(architecture)
    app, branch, finalize = begun(engine, work)
    clean, _, _ = begun(engine, work)
    before = engine.digest(clean.state("desk"))
    for _ in range(3):
        app.explore("desk", branch)
        try:
            app.abort("desk", mode)
        except Unsupported:
            assert app.residue("desk") == branch.ids
            app.abort("desk", Mode.SNAPSHOT)
        assert engine.digest(app.state("desk")) == before
    found, expected = (it.decide("desk", finalize, lambda held: engine.decode(held, 8)) for it in (app, clean))
    assert found == expected


@every_family
def test_a_branch_that_is_retried_after_its_abort_is_the_branch_of_the_first_try(
    tiny: Tiny, work: Work, architecture: str
) -> None:
    """vllm#39146: retries diverged."""
    engine = tiny(architecture)
    retried, branch, _ = begun(engine, work)
    at_once, _, _ = begun(engine, work)
    retried.explore("desk", branch)
    retried.abort("desk", Mode.SNAPSHOT)
    for app in (retried, at_once):
        app.explore("desk", branch)
        app.commit("desk")
    assert engine.digest(retried.state("desk")) == engine.digest(at_once.state("desk"))
    assert retried.residue("desk") == ()


def test_a_retry_on_a_kept_cache_is_seen_to_hold_the_branch_twice(llama: Engine, work: Work) -> None:
    """vllm#39146: the session that does not restore is told by its residue at each abort."""
    app, branch, _ = begun(llama, work)
    for times in (1, 2):
        app.explore("desk", branch)
        app.abort("desk", Mode.KEEP)
        assert app.residue("desk") == branch.ids * times


@every_family
def test_a_pass_may_be_cut_anywhere(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """vllm#34587, transformers#46741: a state was wrong where a chunk ended beside a block of the cache."""
    engine: Any = tiny(architecture)
    whole = engine.prefill(ids)
    for cut in CUTS:
        parts = engine.prefill(ids[:cut])
        engine.feed(parts, ids[cut:])
        distance = engine.distance(parts, whole)
        assert distance is not None, cut
        assert distance <= engine.facts.layer1_tolerance, cut


@pytest.mark.parametrize("architecture", ["llama", "mistral", "falcon_h1", "lfm2"])
def test_generate_goes_on_with_the_cache_that_it_returned(tiny: Tiny, ids: tuple[int, ...], architecture: str) -> None:
    """Qwen3#819: the second `generate` with the returned cache failed; its prompt was shorter than the cache."""
    plain = tiny(architecture)
    engine = plain.through("generate")
    kept, ours = engine.prefill(ids[:20]), plain.prefill(ids[:20])
    for turn in (ids[20:40], ids[40:50], ids[50:]):
        engine.feed(kept, turn)
        plain.feed(ours, turn)
        found, expected = engine.decode(kept, 5), plain.decode(ours, 5)
        assert (found.ids, found.stop) == (expected.ids, expected.stop)
        assert kept.ledger == ours.ledger
