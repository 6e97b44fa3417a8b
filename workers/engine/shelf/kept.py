"""Keys and values of a run of tokens, all layers in one tensor each; and what a cache holds, compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from workers.engine.batch import KeysAndValues
from workers.engine.shelf.trie import Node

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By bytes an element: compared as numbers, −0 equals 0 and what is no number equals nothing."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A node's own tokens, on storage of their own.

    Attributes:
        keys, values: `[num_layers, kv_heads, num_tokens, head_dim]`.
        logits: `[vocab]`, float32, after the last token; None where nobody asks for that state.
    """

    keys: Tensor
    values: Tensor
    logits: Tensor | None

    @classmethod
    def of(cls, layers: Sequence[KeysAndValues], logits: Tensor | None) -> Kept:
        """Copy `[1, kv_heads, num_tokens, head_dim]` of each layer."""
        keys, values = (torch.cat(side) for side in zip(*layers, strict=True))
        return cls(keys, values, None if logits is None else logits.clone())

    @property
    def num_tokens(self) -> int:
        """Tokens that it holds."""
        return self.keys.shape[2]

    @property
    def num_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(tensor.nbytes for tensor in (self.keys, self.values, self.logits) if tensor is not None)

    def last(self, num_tokens: int) -> Kept:
        """A copy of the last tokens; itself where there are no others."""
        if num_tokens == self.num_tokens:
            return self
        keys, values = (tensor[:, :, -num_tokens:].clone() for tensor in (self.keys, self.values))
        return Kept(keys, values, self.logits)


def kept(node: Node[Kept]) -> Kept:
    """What a filled node keeps."""
    assert node.kept is not None
    return node.kept


def joined(run: Iterable[Kept]) -> tuple[Tensor, Tensor]:
    """Keys and values of nodes one behind the other, on new storage."""
    parts = list(run)
    return torch.cat([part.keys for part in parts], 2), torch.cat([part.values for part in parts], 2)


def by_layer(keys: Tensor, values: Tensor) -> list[KeysAndValues]:
    """As a cache holds them: `[1, kv_heads, num_tokens, head_dim]` of each layer, in the memory of the whole."""
    return list(zip(keys.unsqueeze(1), values.unsqueeze(1), strict=True))


def load(cache: Any, keys: Tensor, values: Tensor) -> None:
    """Have a plain cache hold `[num_layers, kv_heads, num_tokens, head_dim]`, in that memory, and nothing else."""
    layers = []
    for held in by_layer(keys, values):
        layer = DynamicLayer()
        layer.lazy_initialization(*held)
        layer.keys, layer.values = held
        layers.append(layer)
    cache.layers = layers


def holds(cache: Any, keys: Tensor, values: Tensor) -> bool:
    """Whether the cache's layers hold exactly these bytes, and nothing else."""
    layers = cache.layers
    if not keys.shape[2]:
        return not layers
    if len(layers) != len(keys) or any(type(layer) is not DynamicLayer for layer in layers):
        return False
    return all(
        _same_bytes(layer.keys, ours) and _same_bytes(layer.values, theirs)
        for layer, (ours, theirs) in zip(layers, by_layer(keys, values), strict=True)
    )


def _same_bytes(held: Tensor, kept: Tensor) -> bool:
    if (held.shape, held.dtype, held.device) != (kept.shape, kept.dtype, kept.device):
        return False
    kind = _INTEGERS[held.element_size()]
    return torch.equal(held.view(kind), kept.view(kind))
