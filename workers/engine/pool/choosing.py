"""One token for each of many rows, by the rule of `Choice`, without leaving the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from workers.engine.base import Decoded
from workers.engine.choice import Choice


class Chosen(NamedTuple):
    """One step of all rows: `[num_rows]` each.

    Attributes:
        tokens: int64.
        margins: float64, in logits, as `Choice.margins` has them.
        is_nan: the logits are not numbers.
    """

    tokens: Tensor
    margins: Tensor
    is_nan: Tensor


def choose(logits: Tensor, choices: Sequence[Choice], ahead: int = 0) -> Chosen:
    """The next tokens after logits `[num_rows, vocab]` in float32; what is no number gets a token all the same.

    Args:
        choices: each row's, which this does not touch.
        ahead: tokens that were chosen since and that the choices do not know yet.
    """
    best = logits.topk(2).values.double()
    tokens, margins = logits.argmax(-1), best[:, 0] - best[:, 1]
    drawn = [row for row, choice in enumerate(choices) if choice.stream is not None]
    if drawn:
        at = torch.tensor(drawn, device=logits.device)
        tokens[at], margins[at] = _drawn(logits[at], [choices[row] for row in drawn], ahead)
    return Chosen(tokens, margins, logits.isnan().any(-1))


def _drawn(logits: Tensor, choices: Sequence[Choice], ahead: int) -> tuple[Tensor, Tensor]:
    streams = [(choice.stream, len(choice.tokens) + ahead) for choice in choices]
    noise = np.stack([stream.noise(step, logits.shape[1]) for stream, step in streams if stream is not None])
    heat = [stream.temperature for stream, _ in streams if stream is not None]
    device = logits.device
    temperature = torch.tensor(heat, dtype=torch.float64).to(device, non_blocking=True)
    scores = logits.double() / temperature[:, None] + torch.from_numpy(noise).to(device, non_blocking=True)
    best = scores.topk(2).values
    return scores.argmax(-1), (best[:, 0] - best[:, 1]) * temperature


def read(steps: Sequence[Chosen], choices: Sequence[Choice], budgets: Sequence[int]) -> list[int]:
    """Bring steps to the host, and give each row's choice its tokens up to the reply's end; the rows that failed.

    This waits for the device.
    """
    tokens, margins, is_nan = (torch.stack(side).tolist() for side in zip(*steps, strict=True))
    failed = []
    for row, (choice, budget) in enumerate(zip(choices, budgets, strict=True)):
        for step in range(len(steps)):
            if is_over(choice, budget):
                break
            if is_nan[step][row]:
                failed.append(row)
                break
            choice.tokens.append(tokens[step][row])
            choice.margins.append(margins[step][row])
    return failed


def is_over(choice: Choice, budget: int) -> bool:
    """Whether the reply has ended, or used up its budget."""
    return choice.is_ended or len(choice.tokens) >= budget


def is_whole(reply: Decoded, max_new_tokens: int) -> bool:
    """Whether a reply is as long as its end says: all of the budget, or with its end within it."""
    if reply.stop == "eos":
        return len(reply.ids) < max_new_tokens
    return len(reply.ids) == max_new_tokens


def follows(logits: Tensor, choice: Choice, ids: Sequence[int], noise: float) -> bool | None:
    """Whether `choice` takes these ids after logits `[num_rows, vocab]`, and ends where a row is left over.

    None where two logits lie too close for that noise to tell.
    """
    for at, row in enumerate(logits):
        token = choice.take(row)
        if choice.margins[-1] <= 2 * noise:
            return None
        if choice.is_ended != (at == len(ids)) or (at < len(ids) and token != ids[at]):
            return False
    return True
