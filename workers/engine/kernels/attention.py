"""Attention whose rows depend neither on the batch nor on how far the window is padded: keys in blocks, one by one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

NAME = "invariant_blocks"
"""As transformers finds it."""

_BLOCK = 64
"""Keys in one matrix product: a product of another width may be another kernel, which rounds in another way."""
_ROWS = 4
"""Query rows in one matrix product are a multiple of it; remainders are what other kernels are taken for."""
_TILE = 256
"""Query tokens whose scores are in memory at once."""
_LEAST = torch.finfo(torch.float32).min
"""Score of a hidden key. It is finite: a row that sees nothing, as padding does, then reads numbers and no NaN."""
_FOREIGN = ("softcap", "s_aux", "position_bias", "sliding_window")
"""What some models ask of attention beyond what is computed here."""


def register() -> None:
    """Make attention and mask known by `NAME`; without the latter transformers drops the causal mask in silence."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, mask_for)


def mask_for(*, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: Any = 0, **others: Any) -> Tensor | None:
    """The framework's boolean mask; None only where `attend` reads it rightly: the queries are the last of the keys.

    Under torch's own attention None may also say that a static cache's keys behind the queries are not filled yet.
    """
    are_last = bool(kv_offset + kv_length == q_offset + q_length)
    others["allow_is_causal_skip"] = others.get("allow_is_causal_skip", True) and are_last
    mask: Tensor | None = sdpa_mask(
        q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset, **others
    )
    return mask


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Softmax attention in float32.

    Args:
        module: the attention layer.
        query: `[batch, heads, T, dim]`.
        key: `[batch, kv_heads, S, dim]`, `heads` a multiple of `kv_heads`.
        value: `[batch, kv_heads, S, value_dim]`.
        attention_mask: `[batch or 1, heads or 1, T, at least S]`, true where attention may go, or what is added to the
            scores; None: query t of T sees the keys up to S − T + t.
        scaling: what products are multiplied by; None: 1/√dim.
        others: what the model asks for beside.

    Returns:
        `[batch, T, heads, value_dim]`, and no weights.

    Raises:
        NotImplementedError: the model asks for something else than plain attention.
    """
    asked = [name for name in _FOREIGN if others.get(name) is not None]
    if asked or not getattr(module, "is_causal", True):
        raise NotImplementedError(f"attention with {', '.join(asked) or 'no causal order'}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    mask = _causal(query.shape[2], key.shape[2], query.device) if attention_mask is None else attention_mask
    keys, values = _blocks(key), _blocks(value)
    tiles = zip(torch.split(query, _TILE, dim=2), _tiles(mask, query.shape[2]), strict=True)
    outs = [_tile(rows, keys, values, seen, key.shape[2], scale) for rows, seen in tiles]
    return torch.cat(outs, dim=2).transpose(1, 2).contiguous(), None


def _causal(num_queries: int, num_keys: int, device: torch.device) -> Tensor | None:
    if num_queries == 1:
        return None
    seen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return seen.tril(num_keys - num_queries)[None, None]


def _tiles(mask: Tensor | None, num_queries: int) -> list[Tensor | None]:
    if mask is None or mask.shape[2] == 1:
        return [mask] * -(-num_queries // _TILE)
    return list(torch.split(mask, _TILE, dim=2))


def _blocks(states: Tensor) -> list[Tensor]:
    """`[batch, kv_heads, S, dim]` → `[batch × kv_heads, 64, dim]` each, views but for the last, which zeros fill up."""
    blocks = list(torch.split(states, _BLOCK, dim=2))
    blocks[-1] = functional.pad(blocks[-1], (0, 0, 0, _BLOCK - blocks[-1].shape[2]))
    return [block.flatten(0, 1) for block in blocks]


def _tile(
    query: Tensor, keys: list[Tensor], values: list[Tensor], mask: Tensor | None, num_keys: int, scale: float
) -> Tensor:
    """`[batch, heads, T, dim]` → `[batch, heads, T, value_dim]`."""
    batch, heads, num_queries, dim = query.shape
    # The query heads of one key head stand one below the other, so that no key is copied for them.
    rows = (query * scale).reshape(keys[0].shape[0], -1, dim)
    num_rows = rows.shape[1]
    rows = functional.pad(rows, (0, 0, 0, -num_rows % _ROWS))
    scores = torch.cat([torch.bmm(rows, block.transpose(1, 2)) for block in keys], dim=2)
    scores[..., num_keys:] = _LEAST
    if mask is not None:
        group = num_rows // num_queries
        _hide(scores[:, :num_rows, :num_keys].view(batch, -1, group, num_queries, num_keys), mask)
    weights = torch.split(scores.softmax(-1), _BLOCK, dim=2)
    # In block order and from zero, so that a block of hidden keys, whose product is 0, changes no bit.
    out = torch.zeros(())
    for weight, block in zip(weights, values, strict=True):
        out = out + torch.bmm(weight, block)
    return out[:, :num_rows].reshape(batch, heads, num_queries, -1)


def _hide(scores: Tensor, mask: Tensor) -> None:
    """Write the mask `[batch or 1, heads or 1, T or 1, S]` into `scores` `[batch, kv_heads, group, T, S]`."""
    rows, heads, num_queries, _ = mask.shape
    each = scores.shape[1:3] if heads > 1 else (1, 1)
    mask = mask[..., : scores.shape[-1]].reshape(rows, *each, num_queries, -1)
    if mask.dtype == torch.bool:
        scores.masked_fill_(~mask, _LEAST)
    else:
        scores.add_(mask).clamp_(min=_LEAST)
