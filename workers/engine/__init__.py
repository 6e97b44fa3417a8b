"""Models and their caches. The only place where torch and transformers are imported."""

from __future__ import annotations

import os
from typing import Any, Literal

from workers.engine.base import Answer, Ask, Chain, Decoded, Engine, Facts, Handle, Path, Pool, Render, Shelf, Ticket
from workers.spec import ModelSpec

__all__ = [
    "Answer",
    "Ask",
    "Chain",
    "Decoded",
    "Engine",
    "Facts",
    "Handle",
    "Path",
    "Pool",
    "Render",
    "Shelf",
    "Ticket",
    "around",
    "load",
]


def load(spec: ModelSpec, *, num_threads: int, weights: Literal["packed", "mapped"] = "packed") -> Engine:
    """The engine that `spec` asks for. Heavy imports happen here, not at import of this package.

    Args:
        num_threads: for torch, in the whole process.
        weights: what invariant kernels read: `packed`, a private copy, for a slot that has the node for itself;
            `mapped`, the file's own pages, where several slots share them. Both give the same bits; the former is
            faster, the latter takes memory once a node.

    Raises:
        ModelError: the weights, the tokenizer or the template cannot be loaded.
    """
    if spec.source.kind == "scripted":
        from workers.engine.null import NullEngine

        return NullEngine(spec)
    # Read when torch is imported. A thread that spins for longer takes the core that the others need where a machine is
    # shared: 2 to 5 times as long there, and no difference on one that is not.
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    from workers.engine.loading import load_engine

    return load_engine(spec, num_threads=num_threads, weights=weights)


def around(model: Any, tokenizer: Any, *, name: str = "theirs", **chat: Any) -> Engine:
    """An engine around a model and a tokenizer of transformers that somebody has loaded (`theirs.around`).

    Raises:
        ConfigError: it is no such model, or is in training mode.
        ModelError: the template cannot be used, or the model cannot continue a cache.
    """
    from workers.engine.theirs import around as made_around

    return made_around(model, tokenizer, name=name, **chat)
