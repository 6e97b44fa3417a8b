"""Positions that get no attention: spans, the mask that says them, and what a proof plants behind one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from workers.engine import kernels
from workers.engine.cache import tensors
from workers.engine.handle import Span
from workers.errors import Unsupported

PROVEN_ATTENTION = ("eager", "sdpa", kernels.NAME)
"""Kernels in which a masked key's weight is exactly 0; another kernel is refused and not trusted."""


def attention_mask(num_tokens: int, hidden: Sequence[Span], device: torch.device) -> Tensor:
    """`[1, num_tokens]`: 1 where attention may go, 0 at the hidden positions."""
    mask = torch.ones(1, num_tokens, dtype=torch.long, device=device)
    for start, stop in hidden:
        mask[:, start:stop] = 0
    return mask


def clipped(hidden: Sequence[Span], length: int) -> tuple[Span, ...]:
    """The spans as far as a cache of `length` tokens holds them."""
    return tuple((start, min(stop, length)) for start, stop in hidden if start < length)


def joined(hidden: Sequence[Span], start: int, stop: int) -> tuple[Span, ...]:
    """The spans with one more, sorted, disjoint and as few as can be: the same positions always read the same."""
    spans: list[Span] = []
    for first, last in sorted((*hidden, (start, stop))):
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    return tuple(spans)


def deface(cache: Any, num_tokens: int, start: int, stop: int) -> None:
    """Overwrite what the cache holds of the positions, in place, loudly; whoever looks there answers otherwise.

    Raises:
        Unsupported: the cache holds something that cannot be told apart by position.
    """
    for name, tensor in tensors(cache):
        if name.rpartition(".")[2] not in ("keys", "values") or tensor.shape[-2] < num_tokens - start:
            raise Unsupported(f"the cache's {name} cannot be told apart by position")
        # A windowed layer has dropped its first keys, so positions count from the end.
        kept = tensor.shape[-2]
        span = tensor[..., kept - num_tokens + start : kept - num_tokens + stop, :]
        span.copy_(span * -8 + 1)
