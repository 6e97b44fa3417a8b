"""Kernels whose result for a row does not depend on the rows computed beside it: alone and in a batch, bit by bit.

The rule (found by trial, proven at every start by `proof.prove`): one oneDNN kernel for every number of rows of a
linear layer, and attention as products over blocks of 64 keys, added in block order.
"""

from __future__ import annotations

from transformers import PreTrainedModel

from workers.engine.kernels.attention import NAME
from workers.engine.kernels.install import Stock, Weights, install, is_installed, restore, rounding, unfit
from workers.engine.kernels.proof import prove
from workers.engine.kernels.shallow import shallow

__all__ = [
    "NAME",
    "Stock",
    "Weights",
    "adopt",
    "install",
    "is_installed",
    "prove",
    "restore",
    "rounding",
    "shallow",
    "unfit",
]


def adopt(model: PreTrainedModel, weights: Weights = "packed") -> str | None:
    """Give the model the invariant kernels for good, if they prove to be invariant on it; else it stays as it was.

    Returns:
        Why it computes with the stock kernels; None where it does not.
    """
    if reason := unfit(model):
        return reason
    stock = install(model, weights)
    if reason := prove(model):
        restore(model, stock)
    return reason
