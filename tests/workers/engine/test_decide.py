"""Replies, margins and scores are what the model's logits say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from workers.engine import Engine
from workers.episode import Message

Tiny = Callable[[str], Engine]
QUESTION = (Message("system", "Be brief."), Message("user", "What is the capital of France?"))


def logits(engine: Any, ids: tuple[int, ...]) -> torch.Tensor:
    """One pass without any cache of ours: `[num_ids, vocab]`."""
    with torch.inference_mode():
        rows: torch.Tensor = engine._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    return rows


def test_a_reply_is_what_transformers_generates(smollm2: Any) -> None:
    prompt = smollm2.render(QUESTION).ids
    reply = smollm2.decode(smollm2.prefill(prompt), 24)
    generated = smollm2._model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), do_sample=False, max_new_tokens=24
    )[0, len(prompt) :].tolist()
    assert reply.stop == "eos"
    assert [*reply.ids, generated[-1]] == generated
    assert generated[-1] in smollm2._eos_ids
    assert reply.text == "The capital of France is Paris."


def test_the_margin_is_the_smallest_gap_over_all_steps_and_the_end_is_a_step(smollm2: Engine) -> None:
    prompt = smollm2.render(QUESTION).ids
    reply = smollm2.decode(smollm2.prefill(prompt), 24)
    rows = logits(smollm2, prompt + reply.ids)[len(prompt) - 1 :]
    gaps = rows.topk(2).values.diff(dim=-1).abs()
    assert len(gaps) == len(reply.ids) + 1
    assert reply.top2_margin == pytest.approx(gaps.min().item(), abs=1e-3)


def test_a_reply_that_runs_out_of_budget_says_so(smollm2: Engine) -> None:
    prompt = smollm2.prefill(smollm2.render(QUESTION).ids)
    whole = smollm2.decode(smollm2.fork(prompt), 24)
    cut = smollm2.decode(smollm2.fork(prompt), len(whole.ids))
    assert (cut.stop, cut.ids) == ("budget", whole.ids)
    assert smollm2.decode(prompt, len(whole.ids) + 1).stop == "eos"


def test_deciding_once_more_gives_the_same_reply(llama: Engine, ids: tuple[int, ...]) -> None:
    state = llama.prefill(ids)
    assert llama.decode(llama.fork(state), 8) == llama.decode(llama.fork(state), 8)


@pytest.mark.parametrize("text", ["SEND report TO finance-desk", "SEND"])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen3_next", "jamba", "mamba"])
def test_a_score_is_the_log_softmax_of_a_single_pass(
    tiny: Tiny, ids: tuple[int, ...], architecture: str, text: str
) -> None:
    engine = tiny(architecture)
    state = engine.prefill(ids)
    before = engine.digest(state)
    written = engine.segmentations(text)
    alone = next(form for form in written if engine.text(form) == text)
    logprobs = logits(engine, ids + alone)[len(ids) - 1 : -1].log_softmax(-1)
    expected = sum(logprobs[step, token].item() for step, token in enumerate(alone))
    assert engine.score(state, text) == pytest.approx(expected, abs=2e-3)
    assert engine.digest(state) == before


def test_an_empty_text_has_no_score(llama: Engine, ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="empty text"):
        llama.score(llama.prefill(ids), "")


def test_a_cropped_cache_predicts_nothing_until_it_is_fed(llama: Engine, ids: tuple[int, ...]) -> None:
    cropped = llama.crop(llama.prefill(ids), 40)
    with pytest.raises(ValueError, match="until it is fed"):
        llama.decode(cropped, 1)
