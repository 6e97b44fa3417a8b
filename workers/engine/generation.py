"""The framework's own `generate` on a kept cache, as an application calls it that carries the whole sequence on."""

from __future__ import annotations

from unittest import mock

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel

from workers.engine.choice import Choice
from workers.engine.handle import CacheHandle
from workers.engine.masking import attention_mask
from workers.engine.memory import memory_errors


class Chooser(LogitsProcessor):
    """Leaves `generate` no token but the one that our own decoding would choose from the same logits."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self.logits: Tensor | None = None
        """`[vocab]`, float32: what the last token was chosen from."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002
        """Scores `[1, vocab]` → minus infinity everywhere but at the choice.

        Raises:
            FloatingPointError: the scores are not numbers.
        """
        self.logits = scores[0].float()
        if self.logits.isnan().any():
            raise FloatingPointError("the model's logits are not numbers")
        token = self._choice.take(self.logits)
        only = torch.full_like(scores, -torch.inf)
        only[0, token] = 0.0
        return only


def generate(model: PreTrainedModel, keyword: str, handle: CacheHandle, choice: Choice, num_tokens: int) -> Tensor:
    """Feed the handle's waiting ids and up to `num_tokens` − 1 choices; `generate` leaves its last choice unfed.

    `generate` is given every id that the cache encodes and the new ones behind them. It never compares the two: it
    feeds what the ids are longer by than the cache (kv_cache_facts, fact 5). The handle's ledger is brought up to date.

    Args:
        keyword: the name of the cache argument.

    Returns:
        `[vocab]`, float32: the logits that the last token was chosen from.
    """
    device, size = model.device, len(handle.ids)
    inputs = {
        "input_ids": torch.tensor([handle.ids], device=device),
        "attention_mask": attention_mask(size, handle.hidden, device),
        keyword: handle.cache,
    }
    if handle.hidden:
        # Left to itself it counts the positions that the mask keeps, and so moves every token behind a hidden one.
        inputs["position_ids"] = torch.arange(size, device=device)[None]
    eos = sorted(choice.eos_ids)
    config = GenerationConfig(
        max_new_tokens=num_tokens,
        do_sample=False,
        use_cache=True,
        eos_token_id=eos or None,
        pad_token_id=(eos or [0])[0],
    )
    chooser, before = Chooser(choice), len(choice.tokens)
    # The model's own settings (penalties, forced tokens) fill whatever a config leaves open.
    plain = mock.patch.object(model, "generation_config", GenerationConfig())
    with torch.inference_mode(), memory_errors(), plain:
        model.generate(  # type: ignore[operator]  # torch types a module's attributes as tensors
            **inputs, generation_config=config, logits_processor=LogitsProcessorList([chooser])
        )
    made = choice.tokens[before:]
    handle.num_fed.extend((handle.num_queued, *(1 for _ in made[1:])))
    handle.ids.extend(made[:-1])
    handle.num_queued = 0
    if chooser.logits is None:
        raise RuntimeError("generate chose no token")
    return chooser.logits
