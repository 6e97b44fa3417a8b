"""Pools of few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workers.engine.pool.batched import Batched, Bounds
from workers.engine.pool.noise import Proof


@pytest.fixture(scope="session")
def make_pool() -> Callable[..., Batched]:
    """Engine → a pool of few rows, which measures anew."""

    def make(engine: Any, *, num_rows: int = 4, sync_every: int = 1, noise: float | None = None) -> Batched:
        proof = Proof(engine.facts.layer1_tolerance)
        if noise is not None:
            proof.noise = dict.fromkeys((f"{rows}x256" for rows in (2, 3, 4, 8)), noise)
        return Batched(engine._means(), proof, Bounds(num_rows, 1 << 26, sync_every))

    return make
