"""The least time that the same trials could take on this machine: arithmetic on two rates measured beside them.

Ideal = each unique token of each class through the linear layers once, at the machine's matrix rate, and decoding at
the later of its two bounds: reading the weights once a step with full batches, or the products of every decoded token.
Attention, embedding, norms and everything that is no matrix product cost nothing in it, so it is never reached.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

REPEATS = 7
SHAPES = ((256, 576, 1536), (512, 1024, 1024), (1024, 2048, 2048))
"""Rows × inner × columns; the quickest of them is taken as the machine's rate."""
READ_BYTES = 2**28
"""More than a cache holds."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What the machine does, with the threads that both sides have.

    Attributes:
        flops: of a matrix product in the model's dtype, a second.
        bytes: read from memory, a second.
    """

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Weights:
    """A dense model as work: a token's products are two operations a weight.

    Attributes:
        num_body: weights of the linear layers below the vocabulary.
        num_head: weights of the projection to the vocabulary.
        num_bytes: of all of them together.
    """

    num_body: int
    num_head: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """What has to be computed.

    Attributes:
        num_prefill: unique tokens over all classes.
        num_decode: tokens of replies that are decoded, the end of the sequence included.
        num_scored: tokens of texts that are scored.
        num_rows: replies that are decoded.
    """

    num_prefill: int
    num_decode: int
    num_scored: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class Ideal:
    """Seconds, by part."""

    prefill_s: float
    decode_by_products_s: float
    decode_by_memory_s: float
    scores_s: float

    @property
    def total_s(self) -> float:
        """Decoding cannot be quicker than either of its bounds."""
        return self.prefill_s + max(self.decode_by_products_s, self.decode_by_memory_s) + self.scores_s


def ideal(work: Work, weights: Weights, rates: Rates, batch: int) -> Ideal:
    """The least time for that work, at most `batch` rows to a step.

    The last token of a context predicts the first of its reply, so as many tokens are decoded as are fed.
    """
    body_s, head_s = 2 * weights.num_body / rates.flops, 2 * weights.num_head / rates.flops
    num_steps = math.ceil(work.num_decode / batch)
    return Ideal(
        prefill_s=work.num_prefill * body_s,
        decode_by_products_s=(work.num_decode - work.num_rows) * body_s + work.num_decode * head_s,
        decode_by_memory_s=num_steps * weights.num_bytes / rates.bytes,
        scores_s=work.num_scored * (body_s + head_s),
    )


def weights_of(model: PreTrainedModel) -> Weights:
    """Of a dense model; a mixture of experts reads and multiplies fewer."""
    head = model.get_output_embeddings().weight
    linear = [p for p in model.get_decoder().parameters() if p.dim() == 2 and p.shape != head.shape]
    num_body = sum(p.numel() for p in linear)
    return Weights(num_body, head.numel(), (num_body + head.numel()) * head.element_size())


def rates(device: str, dtype: str) -> Rates:
    """Measured now: the best of several shapes and of several repeats, so that a passing load does not count."""
    import torch

    kind = getattr(torch, dtype)
    flops = 0.0
    for rows, inner, columns in SHAPES:
        a, b = (torch.randn(*shape, device=device).to(kind) for shape in ((rows, inner), (inner, columns)))
        flops = max(flops, 2.0 * rows * inner * columns / _least_s(partial(torch.matmul, a, b), device))
    wide = torch.ones(READ_BYTES // 8192 // kind.itemsize, 8192, device=device, dtype=kind)
    row = torch.ones(8192, device=device, dtype=kind)
    reads = [_least_s(lambda: wide @ row, device), _least_s(lambda: wide.view(torch.int16).amax(), device)]
    return Rates(flops, READ_BYTES / min(reads))


def _least_s(compute: Callable[[], Tensor], device: str) -> float:
    return min(_times(compute, device))


def _times(compute: Callable[[], Tensor], device: str) -> Iterator[float]:
    import torch

    for _ in range(REPEATS):
        start = time.perf_counter()
        compute()
        if device != "cpu":
            torch.cuda.synchronize()
        yield time.perf_counter() - start
