"""Models and their caches. The only place where torch and transformers are imported."""

from __future__ import annotations

from typing import Any

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


def load(spec: ModelSpec, *, num_threads: int) -> Engine:
    """The engine that `spec` asks for. Heavy imports happen here, not at import of this package.

    Raises:
        ModelError: the weights, the tokenizer or the template cannot be loaded.
    """
    if spec.source.kind == "scripted":
        from workers.engine.null import NullEngine

        return NullEngine(spec)
    from workers.engine.loading import load_engine

    return load_engine(spec, num_threads=num_threads)


def around(model: Any, tokenizer: Any, *, name: str = "theirs", **chat: Any) -> Engine:
    """An engine around a model and a tokenizer of transformers that somebody has loaded (`theirs.around`).

    Raises:
        ConfigError: it is no such model, or is in training mode.
        ModelError: the template cannot be used, or the model cannot continue a cache.
    """
    from workers.engine.theirs import around as made_around

    return made_around(model, tokenizer, name=name, **chat)
