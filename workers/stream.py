"""The noise of a sampled reply: common random numbers for arms that decide on the same question.

Two arms that stand before the same logits draw the same token, up to ties. One seeded generator would not pair them:
after the first token in which they differ it is consumed at another pace (arXiv 2603.11084). Here every step of every
draw has noise of its own, so they stay paired.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Stream:
    """The noise of one draw of one question.

    A token is drawn as argmax(logits / T + Gumbel noise), which follows softmax(logits / T) (the Gumbel-max trick).

    Attributes:
        temperature: T above 0; a greedy reply has no stream.
        seed: the grid's.
        question: what the arms of an episode share, and other episodes do not.
        draw: number of the draw, from 0.
    """

    temperature: float
    seed: int
    question: str
    draw: int

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"a stream needs a temperature above 0, not {self.temperature}")

    def noise(self, step: int, size: int) -> NDArray[np.float64]:
        """Standard Gumbel noise `[size]`, of (seed, question, draw, step) alone.

        Philox4x64 under a 128-bit BLAKE2b key. Its raw words are the same on every platform and in every numpy (NEP 19
        promises that of bit generators, not of distributions), so the two logarithms are taken here; they may differ
        between mathematical libraries in the last bit. A longer answer begins with the shorter one.
        """
        event = json.dumps([self.seed, self.question, self.draw, step]).encode()
        key = int.from_bytes(hashlib.blake2b(event, digest_size=16).digest())
        words = np.random.Philox(key=key).random_raw(size)
        # The middles of 2^52 equal parts of (0, 1): every one of them is a double, and neither end is.
        uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        noise: NDArray[np.float64] = -np.log(-np.log(uniform))
        return noise
