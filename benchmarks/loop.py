"""The per-arm loop: how a paper's script runs the same trials, on stock transformers and one state at a time.

For every arm of every episode it prefills what that arm needs, alone and anew, does the arm's cache operation, feeds
the delta and decodes greedily at batch 1. A prefill computes the last position's logits alone, as `generate` does it.
Nothing is checked, nothing is shared and nothing is recorded, so the loop is the cheaper side wherever the two differ.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.cache_utils import DynamicCache

from benchmarks.trials import Situation
from workers.engine.cache import CacheKind
from workers.engine.quiet import quiet
from workers.engine.random_weights import build
from workers.sources import locate
from workers.spec import ModelSpec, RandomSource


@dataclass(frozen=True, slots=True)
class Reply:
    """One trial of the loop.

    Attributes:
        ids: the reply, without the end of the sequence.
        scores: log-probability (nats) of each of the situation's texts.
        reply_s: prefill, cache operation, delta and decoding.
        scores_s: the forced choice, beside that.
    """

    ids: tuple[int, ...]
    scores: tuple[float, ...]
    reply_s: float
    scores_s: float


@dataclass(frozen=True, slots=True)
class Loop:
    """A stock model and the tokens that end a reply."""

    model: PreTrainedModel
    eos_ids: frozenset[int]
    keyword: str
    """The cache argument of its `forward`, which differs between versions of transformers."""

    def run(self, arm: str, situation: Situation, max_new_tokens: int) -> Reply:
        """One arm of one episode, from nothing."""
        start = self._clock()
        cache, logits = self.prepared(arm, situation)
        # Scored on copies, so before decoding consumes the state; on a clock of its own.
        decided = self._clock()
        scores = tuple(self._score(cache, logits, ids) for ids in situation.texts)
        scored = self._clock()
        ids = self._decoded(cache, logits, max_new_tokens)
        return Reply(ids, scores, decided - start + self._clock() - scored, scored - decided)

    def prepared(self, arm: str, situation: Situation) -> tuple[DynamicCache, Tensor]:
        """The arm's state with the delta fed, and the logits after it, `[vocab]`."""
        cache = DynamicCache()
        if arm in ONE_PASS:
            return cache, self._fed(cache, ONE_PASS[arm](situation) + situation.delta)
        cache = SESSIONS[arm](self, cache, situation)
        return cache, self._fed(cache, situation.delta)

    def _fed(self, cache: DynamicCache, ids: Sequence[int], num_logits: int = 1) -> Tensor:
        inputs = {"input_ids": torch.tensor([ids], device=self.model.device), self.keyword: cache}
        with torch.inference_mode():
            logits: Tensor = self.model(**inputs, use_cache=True, logits_to_keep=num_logits).logits
        return logits[0] if num_logits != 1 else logits[0, -1]

    def _decoded(self, cache: DynamicCache, logits: Tensor, max_new_tokens: int) -> tuple[int, ...]:
        ids: list[int] = []
        while (token := int(logits.argmax())) not in self.eos_ids:
            ids.append(token)
            if len(ids) == max_new_tokens:
                break
            logits = self._fed(cache, ids[-1:])
        return tuple(ids)

    def _score(self, cache: DynamicCache, logits: Tensor, ids: Sequence[int]) -> float:
        rows = [logits[None]]
        if len(ids) > 1:
            rows.append(self._fed(copy.deepcopy(cache), ids[:-1], num_logits=0))
        found = torch.cat(rows).float().log_softmax(-1)
        return float(found.gather(1, torch.tensor(ids, device=found.device)[:, None]).sum())

    def _clock(self) -> float:
        if self.model.device.type != "cpu":
            torch.accelerator.synchronize(self.model.device)
        return time.perf_counter()


def load(spec: ModelSpec, eos_ids: frozenset[int], num_tokens: int) -> Loop:
    """Stock transformers with the spec's weights, dtype and attention.

    Args:
        num_tokens: size of the tokenizer, for models that are built at random.
    """
    dtype = getattr(torch, spec.dtype)
    if isinstance(spec.source, RandomSource):
        model = build(spec.source, num_tokens=num_tokens, dtype=dtype, attention=spec.attention)
    else:
        path = locate(spec.source)
        place = {"gguf_file": path.name} if path.is_file() else {}
        folder = path.parent if path.is_file() else path
        with quiet():
            model = AutoModelForCausalLM.from_pretrained(
                folder, **place, dtype=dtype, attn_implementation=spec.attention, local_files_only=True
            )
    stock: Any = model
    stock = stock.to("cuda" if spec.device.gpus else "cpu")
    return Loop(stock.eval().requires_grad_(False), eos_ids, CacheKind.of(stock).keyword)


def _explored(loop: Loop, cache: DynamicCache, situation: Situation) -> DynamicCache:
    loop._fed(cache, situation.committed + situation.branch)
    return cache


def _cropped(loop: Loop, cache: DynamicCache, situation: Situation) -> DynamicCache:
    _explored(loop, cache, situation).crop(-len(situation.branch))
    return cache


def _restored(loop: Loop, cache: DynamicCache, situation: Situation) -> DynamicCache:
    loop._fed(cache, situation.committed)
    snapshot = copy.deepcopy(cache)
    loop._fed(cache, situation.branch)
    return snapshot


def _committed(loop: Loop, cache: DynamicCache, situation: Situation) -> DynamicCache:
    loop._fed(cache, situation.committed)
    return cache


def _neutral(loop: Loop, cache: DynamicCache, situation: Situation) -> DynamicCache:
    assert situation.neutral is not None
    loop._fed(cache, situation.committed + situation.neutral)
    return cache


ONE_PASS: dict[str, Callable[[Situation], tuple[int, ...]]] = {
    "cold": lambda situation: situation.committed,
    "text_present": lambda situation: situation.committed + situation.branch,
}
SESSIONS: dict[str, Callable[[Loop, DynamicCache, Situation], DynamicCache]] = {
    "stale": _explored,
    "truncate": _cropped,
    "checkpoint": _restored,
    "branch_scoped": _restored,  # the session forks before the branch: the same passes and the same copy
    "fresh": _committed,
    "position_control": _neutral,
}
ARMS = (*ONE_PASS, *SESSIONS)
