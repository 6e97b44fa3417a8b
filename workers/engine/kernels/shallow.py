"""A model with few of its layers: what holds bit by bit in each kind of layer holds in all that repeat it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import PreTrainedModel


@contextmanager
def shallow(model: PreTrainedModel) -> Iterator[None]:
    """The model with the first of its layers only: two, or as many as show every kind of layer."""
    depth = model.config.get_text_config(decoder=True).num_hidden_layers
    stacks = [name for name, part in model.named_modules() if isinstance(part, nn.ModuleList) and len(part) == depth]
    if len(stacks) != 1:
        yield
        return
    parent, _, name = stacks[0].rpartition(".")
    holder, layers = model.get_submodule(parent), model.get_submodule(stacks[0])
    assert isinstance(layers, nn.ModuleList)
    kinds = [_kind(layer) for layer in layers]
    num_kept = max(2, *(kinds.index(kind) + 1 for kind in kinds))
    setattr(holder, name, layers[:num_kept])
    try:
        yield
    finally:
        setattr(holder, name, layers)


def _kind(layer: nn.Module) -> tuple[Any, ...]:
    return tuple(
        (name, type(part).__name__, getattr(part, "in_features", 0), getattr(part, "out_features", 0))
        for name, part in layer.named_modules()
    )
