"""Putting the invariant kernels into a loaded model, and the stock ones back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from workers.engine.cache import CacheKind
from workers.engine.kernels import attention
from workers.engine.kernels.linear import InvariantLinear, is_available, pack
from workers.engine.rope import RopeLimit

Weights = Literal["packed", "mapped"]
"""What linear layers read: a private copy in oneDNN's own layout, which is faster, or the dense weights, which stay in
the mapped file where all slots of a node share them. Both give the same bits."""

_FAMILIES = ("full",)
"""Cache families whose attention is computed here."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What a model held before: with it the stock kernels come back, and once it is dropped the memory is free.

    Attributes:
        attention: the name that transformers finds the attention by.
        weights: the dense weights of layers that read packed ones.
    """

    attention: str
    weights: dict[InvariantLinear, Tensor]


def unfit(model: PreTrainedModel) -> str | None:
    """Why the kernels cannot be installed; None where they can."""
    if not is_available():
        return "this build of torch lacks oneDNN's linear layer"
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in model.parameters()):
        return "they are for float32 on the CPU"
    if (family := CacheKind.of(model).family) not in _FAMILIES:
        return f"its cache family is {family}"
    if RopeLimit.of(model.config.get_text_config(decoder=True)).limit is not None:
        # A probe beyond the limit would leave a dynamic one changed for good.
        return "its rotary embedding switches with the length"
    if not model._can_set_attn_implementation():
        return "its attention cannot be replaced"
    foreign = [type(module).__name__ for module in model.modules() if not _is_known(module)]
    return f"its {foreign[0]} multiplies matrices in its own way" if foreign else None


def _is_known(module: nn.Module) -> bool:
    """Whether all that the module itself multiplies by is a vector, or is replaced here; lookups only copy."""
    if type(module) in (nn.Linear, InvariantLinear) or isinstance(module, nn.Embedding):
        return True
    return all(weight.ndim < 2 for weight in module.parameters(recurse=False))


def install(model: PreTrainedModel, weights: Weights = "packed") -> Stock:
    """Give a model that is not `unfit` the invariant kernels. Nothing is proven yet (`proof.prove`)."""
    attention.register()
    stock = Stock(model.config._attn_implementation, {})
    model.set_attn_implementation(attention.NAME)
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = InvariantLinear
        if isinstance(module, InvariantLinear) and weights == "packed":
            module.packed = pack(module.weight)
            stock.weights[module] = module.weight
            # Whoever still reads it, as a tied embedding does, holds it; whoever asks this layer for it is told no.
            del module.weight
    return stock


def restore(model: PreTrainedModel, stock: Stock) -> None:
    """Take the invariant kernels out again."""
    model.set_attn_implementation(stock.attention)
    for module in model.modules():
        if isinstance(module, InvariantLinear):
            if module in stock.weights:
                module.weight = stock.weights[module]
            module.packed = None
            module.__class__ = nn.Linear  # type: ignore[assignment]


def is_installed(model: PreTrainedModel) -> bool:
    """Whether the model computes with the invariant kernels."""
    return bool(model.config._attn_implementation == attention.NAME)


def rounding(model: PreTrainedModel) -> float:
    """What one rounding may move a number by, relative to it; 0 where the kernels keep every sum's order."""
    return 0.0 if is_installed(model) else torch.finfo(model.dtype).eps
