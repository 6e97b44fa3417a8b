"""The noise of a sampled reply: common random numbers for arms that decide on the same question."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Stream:
    """One draw's random numbers, keyed by (seed, question, draw, step) and by nothing that an arm could change.

    A reply drawn as `argmax(logits / temperature + noise)` follows softmax(logits / temperature), the Gumbel-max
    trick; two arms whose logits are equal draw the same tokens up to ties, and stay paired after they part (the same
    seed of one running generator would not: arXiv 2603.11084).

    Attributes:
        temperature: above 0.
        question: what is asked, arm and surface left out.
    """

    temperature: float
    seed: int
    question: str
    draw: int

    def noise(self, step: int, size: int) -> NDArray[np.float64]:
        """Standard Gumbel noise, `[size]`, for the reply's token number `step`.

        From the raw output of Philox, a counter-based generator whose stream numpy keeps fixed over versions and
        platforms; what its distributions make of that output is not promised.
        """
        text = f"{self.seed}\x1f{self.question}\x1f{self.draw}\x1f{step}"
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
        raw = np.random.Philox(key=key).random_raw(size)
        # The middle of each of 2^53 cells: neither 0 nor 1, whose logarithms are infinite.
        uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.asarray(-np.log(-np.log(uniform)))
