"""The tokens of one reply, one at a time: greedy, or drawn with the noise of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel

from workers.stream import Stream


@dataclass(slots=True)
class Choice:
    """What chooses, and what it chose so far.

    Attributes:
        stream: None for the greedy reply.
        eos_ids: tokens that end a reply.
        tokens: the choices, the end of the sequence included.
        margins: how far each choice lay ahead of the next best, in logits. With a stream it is the gap between the
            perturbed scores, times T: by so much the logits of two arms may differ before they draw differently.
    """

    stream: Stream | None
    eos_ids: frozenset[int]
    tokens: list[int] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)

    @property
    def is_ended(self) -> bool:
        """Whether the last choice ends the reply."""
        return bool(self.tokens) and self.tokens[-1] in self.eos_ids

    @property
    def ids(self) -> tuple[int, ...]:
        """The reply, without its end."""
        return tuple(self.tokens[:-1] if self.is_ended else self.tokens)

    def take(self, logits: Tensor) -> int:
        """The next token, after logits `[vocab]` in float32.

        Raises:
            FloatingPointError: they are not numbers.
        """
        if logits.isnan().any():
            raise FloatingPointError("the model's logits are not numbers")
        scores = self._perturbed(logits)
        best, second = scores.topk(2).values.tolist()
        self.margins.append((best - second) * (self.stream.temperature if self.stream else 1.0))
        # The first of equal scores, where topk may name any.
        self.tokens.append(int(scores.argmax()))
        return self.tokens[-1]

    def _perturbed(self, logits: Tensor) -> Tensor:
        if self.stream is None:
            return logits
        # On the CPU and in float64, so that equal logits draw alike on every device.
        noise = self.stream.noise(len(self.tokens), logits.numel())
        return logits.double().cpu() / self.stream.temperature + torch.from_numpy(noise)


def eos_ids(model: PreTrainedModel, own: int | None) -> frozenset[int]:
    """Tokens that end a reply: those that the model's generation settings list, and the tokenizer's own."""
    listed = getattr(model.generation_config, "eos_token_id", None)
    ids = listed if isinstance(listed, (list, tuple)) else (listed,)
    return frozenset(token for token in (*ids, own) if token is not None)
