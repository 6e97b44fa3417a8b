"""A drawn reply belongs to its stream and its logits: arms that stand before the same logits draw the same tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from workers import arms
from workers.bench import Bench
from workers.engine import Decoded, Engine
from workers.engine.choice import Choice
from workers.stream import Stream

Tiny = Callable[[str], Engine]
STREAM = Stream(temperature=1.0, seed=0, question="who", draw=0)
PAIRED = ["scripted", "llama", "mistral", "llama4_text", "falcon_h1", "mamba"]


def drawn(bench: Bench, name: str, stream: Stream) -> Decoded:
    arm = arms.get(name)
    handle = arm.prepare(bench)
    if not arm.is_one_pass:
        bench.engine.feed(handle, bench.split.delta_ids)
    return bench.engine.decode(handle, 12, stream)


@pytest.mark.parametrize("architecture", PAIRED)
@pytest.mark.parametrize("draw", range(3))
def test_stale_draws_what_text_present_draws_and_fresh_what_cold_draws(
    tiny: Tiny, bench: Callable[[Engine], Bench], architecture: str, draw: int
) -> None:
    states, stream = bench(tiny(architecture)), replace(STREAM, draw=draw)
    for one, other in (("stale", "text_present"), ("fresh", "cold")):
        assert drawn(states, one, stream).ids == drawn(states, other, stream).ids


@pytest.mark.parametrize("architecture", ["scripted", "llama"])
def test_the_same_stream_on_the_same_state_draws_the_same_reply(
    tiny: Tiny, bench: Callable[[Engine], Bench], architecture: str
) -> None:
    states = bench(tiny(architecture))
    first = drawn(states, "stale", STREAM)
    drawn(states, "fresh", replace(STREAM, draw=5))
    assert drawn(states, "stale", STREAM) == first


@pytest.mark.parametrize("architecture", ["scripted", "llama"])
def test_draws_differ(tiny: Tiny, bench: Callable[[Engine], Bench], architecture: str) -> None:
    states = bench(tiny(architecture))
    replies = {drawn(states, "text_present", replace(STREAM, draw=draw)).ids for draw in range(12)}
    assert len(replies) > 1


@pytest.mark.parametrize("architecture", ["scripted", "llama"])
def test_a_cold_stream_is_greedy(tiny: Tiny, bench: Callable[[Engine], Bench], architecture: str) -> None:
    states = bench(tiny(architecture))
    arm = arms.get("cold")
    greedy = states.engine.decode(arm.prepare(states), 8)
    assert states.engine.decode(arm.prepare(states), 8, replace(STREAM, temperature=1e-6)).ids == greedy.ids


def test_the_margin_says_how_far_a_logit_may_move_before_another_token_is_drawn() -> None:
    stream = replace(STREAM, temperature=0.5)
    logits = torch.tensor([1.0, 0.0, 0.5, -1.0])
    choice = Choice(stream, frozenset())
    token, margin = choice.take(logits), choice.margins[0]
    for share, is_same in ((0.99, True), (1.01, False)):
        moved = logits.clone()
        moved[token] -= share * margin
        assert (Choice(stream, frozenset()).take(moved) == token) is is_same


def test_each_step_of_a_reply_takes_its_own_noise(llama: Any, ids: tuple[int, ...]) -> None:
    reply = llama.decode(llama.prefill(ids), 6, STREAM)
    for step in range(6):
        state = llama.prefill(ids + reply.ids[:step])
        scores = state.logits.double() + torch.from_numpy(STREAM.noise(step, state.logits.numel()))
        assert int(scores.argmax()) == reply.ids[step]


def test_the_first_tokens_drawn_follow_the_model_s_softmax(llama: Any, ids: tuple[int, ...]) -> None:
    state = llama.prefill(ids)
    best = state.logits.topk(20).indices
    wanted = state.logits.softmax(-1)[best].sum().item()
    num_draws = 300
    tokens = [llama.decode(llama.fork(state), 1, replace(STREAM, draw=draw)).ids for draw in range(num_draws)]
    found = sum(bool(token) and token[0] in set(best.tolist()) for token in tokens) / num_draws
    assert abs(found - wanted) < 4 * (wanted * (1 - wanted) / num_draws) ** 0.5


def test_equal_contexts_of_the_null_engine_draw_alike_and_another_name_is_drawn_at_times(tiny: Tiny) -> None:
    engine = tiny("scripted")
    alone, both = ((ord(char) for char in text) for text in (" to a-b.", " to a-b. to c-d."))
    alone_ids, both_ids = tuple(alone), tuple(both)
    replies = [engine.decode(engine.prefill(both_ids), 64, replace(STREAM, draw=draw)).text for draw in range(40)]
    assert {reply.rpartition(" ")[2] for reply in replies} == {"a-b", "c-d"}
    again = [engine.decode(engine.prefill(both_ids), 64, replace(STREAM, draw=draw)).text for draw in range(40)]
    assert again == replies
    only = {engine.decode(engine.prefill(alone_ids), 64, replace(STREAM, draw=draw)).text for draw in range(10)}
    assert {reply.rpartition(" ")[2] for reply in only} == {"a-b"}
