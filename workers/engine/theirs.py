"""Models and caches that somebody else made: an engine around the one, a reading of the other."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from workers.engine import cache as kv
from workers.engine.base import Engine, Handle
from workers.engine.causal import CausalEngine
from workers.engine.chat import Chat
from workers.engine.handle import CacheHandle
from workers.engine.loading import check_version
from workers.errors import ConfigError, ModelError
from workers.spec import LocalSource, ModelSpec


def around(model: Any, tokenizer: Any, *, name: str = "theirs", **chat: Any) -> CausalEngine:
    """An engine around a loaded model and its tokenizer, which stay as they are.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        tokenizer: its tokenizer, with a chat template unless `chat_template` is given.
        name: what to call it.
        chat: how its template is to be used, as in a model's YAML (`system`, `acknowledgement`, `clock`, …).

    Raises:
        ConfigError: it is no such model, or is in training mode.
        ModelError: the template cannot be used, or the model cannot continue a cache.
    """
    check_version()
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(f"the model is a {type(model).__name__}, not one of transformers")
    if model.training:
        raise ConfigError("the model is in training mode, where dropout makes replies random; call model.eval()")
    source = LocalSource(kind="local", path=str(model.name_or_path))
    spec = ModelSpec(name=name, source=source, reply_format="", roles={}, **chat)
    try:
        return CausalEngine(model, Chat(tokenizer, spec))
    except (RuntimeError, TypeError) as fault:
        raise ModelError(f"{name}: {fault}") from fault


def num_tokens(cache: object) -> int | None:
    """Tokens in somebody's cache; None where it cannot be read, or is recurrent and cannot tell.

    Compare `is_readable`.
    """
    # A static layer counts in a tensor, and no two tensors are one element of a set.
    lengths = {int(layer.get_seq_length()) for layer in _layers(cache) if isinstance(layer, CacheLayerMixin)}
    return lengths.pop() if len(lengths) == 1 else None


def is_readable(engine: Engine, cache: object) -> bool:
    """Whether somebody's cache can be held against passes of this engine: it is a transformers `Cache` with tensors."""
    return isinstance(engine, CausalEngine) and any(True for _ in _tensors(cache))


def distance(cache: object, reference: Handle) -> float | None:
    """Largest over tensors of max|a−b| / max|b|; None where the two do not hold the same tensors."""
    assert isinstance(reference, CacheHandle)
    with torch.inference_mode():
        return kv.distance(_filled(cache), reference.cache)


def _layers(cache: object) -> list[Any]:
    return list(cache.layers) if isinstance(cache, Cache) else []


def _tensors(cache: object) -> Any:
    return kv.tensors(cache) if isinstance(cache, Cache) else iter(())


def _filled(cache: object) -> object:
    """The cache, without the room that a static one keeps for tokens to come. Views, only ever to be read."""
    if not any(_is_static(layer) for layer in _layers(cache)):
        return cache
    shown: Any = copy.copy(cache)
    shown.layers = [_filled_layer(layer) if _is_static(layer) else layer for layer in shown.layers]
    return shown


def _is_static(layer: object) -> bool:
    return bool(getattr(layer, "max_cache_len", None)) and bool(getattr(layer, "is_initialized", False))


def _filled_layer(layer: Any) -> Any:
    shown, size = copy.copy(layer), int(layer.get_seq_length())
    shown.keys, shown.values = layer.keys[..., :size, :], layer.values[..., :size, :]
    if layer.is_sliding:
        # It holds one key more than the next token attends to, and than a dynamic layer keeps.
        shown.sliding_window = layer.max_cache_len
        shown.keys, shown.values = (kept[..., 1 - layer.max_cache_len :, :] for kept in (shown.keys, shown.values))
    # As a number it is no state; as a tensor it would be compared like one.
    shown.cumulative_length = size
    return shown
