"""Models and their caches. The only place where torch and transformers are imported."""

from __future__ import annotations

from workers.engine.base import Decoded, Engine, Facts, Handle, Path, Render
from workers.spec import ModelSpec

__all__ = ["Decoded", "Engine", "Facts", "Handle", "Path", "Render", "load"]


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
