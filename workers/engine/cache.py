"""The one place that knows transformers' cache API: which class, which keyword, what can be cropped, what is inside."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import xxhash
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import (
    CacheLayerMixin,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionCacheLayerMixin,
)

from workers.engine.memory import memory_errors
from workers.errors import IsolationError, ModelError, Unsupported

Family = Literal["full", "sliding", "chunked", "hybrid", "recurrent", "conv"]

_KEYWORDS = ("cache", "past_key_values", "cache_params")
"""Names of the cache argument of `forward`, newest first. A wrong one is swallowed: the model runs without context."""

_MAMBA1 = {"mamba", "falcon_mamba", "jamba", "zamba"}
"""Their scan starts from zeros whenever it is given more than one token."""


@dataclass(frozen=True, slots=True)
class CacheKind:
    """What one model's cache is, and what may be asked of it.

    Attributes:
        keyword: the cache argument of `forward`.
        has_length: the cache can tell its length; a purely recurrent one cannot, there the ledger is all there is.
        can_crop: no layer folds its past into a state that cannot be taken apart again.
        is_tokenwise: ids after the first pass must be fed one at a time.
        config: what a cache of the library's own make for this model is built from.
        is_plain: a cache built from nothing, which keeps every key, is right for this model.
        window_tokens: tokens that the narrowest sliding or chunked layer attends to.
    """

    family: Family
    keyword: str
    has_length: bool
    can_crop: bool
    is_tokenwise: bool
    config: PreTrainedConfig
    is_plain: bool
    window_tokens: int | None

    @classmethod
    def of(cls, model: PreTrainedModel) -> CacheKind:
        """Read the kind from the model's config and from the signature of its `forward`."""
        config = model.config.get_text_config(decoder=True)
        layers = DynamicCache(config=config).layers
        # Without a config every key is kept and the mask applies the window, so that crop stays exact past the window.
        is_plain = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        family = _family(config, layers)
        windows = [layer.sliding_window for layer in layers if isinstance(layer, DynamicSlidingWindowLayer)]
        return cls(
            family=family,
            keyword=_keyword(model),
            has_length=any(isinstance(layer, CacheLayerMixin) for layer in layers),
            can_crop=family in ("full", "sliding", "chunked") and all(layer.is_croppable for layer in layers),
            is_tokenwise=config.model_type in _MAMBA1,
            config=config,
            is_plain=is_plain and family != "chunked",
            window_tokens=min(windows, default=None),
        )

    def new(self) -> Any:
        """An empty cache."""
        return DynamicCache() if self.is_plain else DynamicCache(config=self.config)

    def new_recording(self) -> Any:
        """An empty cache of the library's own make, which keeps its past so that `crop` finds it."""
        cache = DynamicCache(config=self.config)
        cache.activate_past_recording()
        return cache

    def check(self, cache: Any, num_tokens: int) -> None:
        """Compare every attention layer's length with the ledger's; a recurrent cache can only be seen to be filled.

        Raises:
            IsolationError: they differ.
        """
        if not self.has_length:
            if num_tokens and next(tensors(cache), None) is None:
                raise IsolationError("ledger_mismatch", f"the cache is empty, the ledger holds {num_tokens}")
            return
        lengths = {
            layer.get_seq_length()
            for layer in cache.layers
            if isinstance(layer, CacheLayerMixin) and layer.is_initialized
        } or {0}
        if lengths != {num_tokens}:
            found = ", ".join(map(str, sorted(lengths)))
            raise IsolationError("ledger_mismatch", f"the cache holds {found} tokens, the ledger {num_tokens}")

    def crop(self, cache: Any, num_tokens: int, num_kept: int, *, is_guarded: bool = True) -> Any:
        """The first `num_kept` of `num_tokens` tokens, by the library's own crop, on storage of their own.

        Args:
            is_guarded: refuse what the library would do wrongly; otherwise its crop is taken at its word.

        Raises:
            Unsupported: a layer cannot give its past back.
            IsolationError: the crop left another number of tokens.
        """
        if is_guarded and not self.can_crop:
            lack = "convolution state keeps no past and" if self.family == "conv" else "recurrent state"
            raise Unsupported(f"a {self.family} cache cannot be cropped: its {lack} cannot be rolled back")
        # crop walks the layers and may raise half-way, so it never runs on the original.
        cropped = fork(cache)
        try:
            with memory_errors():
                cropped.crop(num_kept - num_tokens)
        except RuntimeError as error:
            raise Unsupported(f"a {self.family} cache cannot be cropped here: {error}") from error
        # What crop leaves is a view: the dropped tokens are still in its storage until the rest is copied out.
        _map_tensors(cropped, lambda tensor: tensor.clone(memory_format=torch.contiguous_format))
        self.check(cropped, num_kept)
        return cropped


def _keyword(model: PreTrainedModel) -> str:
    parameters = inspect.signature(model.forward).parameters
    for name in _KEYWORDS:
        if name in parameters:
            return name
    raise ModelError(f"{type(model).__name__}.forward takes no cache (looked for {', '.join(_KEYWORDS)})")


def _family(config: PreTrainedConfig, layers: list[Any]) -> Family:
    types = set(getattr(config, "layer_types", None) or ())
    linear = [layer for layer in layers if isinstance(layer, LinearAttentionCacheLayerMixin)]
    if linear and types & {"conv"}:
        return "conv"
    if linear:
        return "hybrid" if any(isinstance(layer, CacheLayerMixin) for layer in layers) else "recurrent"
    if types & {"chunked_attention"} or getattr(config, "attention_chunk_size", None) is not None:
        return "chunked"
    return "sliding" if any(isinstance(layer, DynamicSlidingWindowLayer) for layer in layers) else "full"


def fork(cache: Any) -> Any:
    """A copy with storage of its own (`copy.copy` would share the layers)."""
    with torch.inference_mode(), memory_errors():
        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            return copy.deepcopy(cache)
        # Five times as quick, and a plain layer holds nothing else that changes.
        copied = copy.copy(cache)
        copied.layers = [copy.copy(layer) for layer in cache.layers]
        _map_tensors(copied, lambda tensor: tensor.clone())
        return copied


def tensors(cache: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor the cache holds, named `<layer>.<attribute>`: keys, values, convolution and recurrent states."""
    for index, layer in enumerate(cache.layers):
        for name, value in sorted(vars(layer).items()):
            if name.startswith("_"):
                continue  # what the layer knows of itself, such as its window's size, is no state
            if isinstance(value, Tensor):
                yield f"{index}.{name}", value
            elif isinstance(value, dict):
                states = ((key, state) for key, state in value.items() if isinstance(state, Tensor))
                yield from ((f"{index}.{name}.{key}", state) for key, state in states)


def storages(cache: Any) -> set[tuple[torch.device, int]]:
    """Where the memory of every tensor that holds something begins; a view begins where its base does."""
    return {(tensor.device, tensor.untyped_storage().data_ptr()) for _, tensor in tensors(cache) if tensor.numel() > 0}


def _map_tensors(cache: Any, function: Callable[[Tensor], Tensor]) -> None:
    for layer in cache.layers:
        for name, value in vars(layer).items():
            if isinstance(value, Tensor):
                setattr(layer, name, function(value))
            elif isinstance(value, dict):
                value.update({key: function(state) for key, state in value.items() if isinstance(state, Tensor)})


def digest(cache: Any, ledger: object) -> str:
    """Hash of the ledger, as `repr` writes it, and of every tensor's name, type, shape and bytes.

    It is no cryptographic hash, and fifteen times as quick: a collision would be an accident, one in 2¹²⁸ pairs, since
    nobody can choose what a model computes. It never leaves the process.
    """
    state = xxhash.xxh3_128(repr(ledger).encode())
    for name, tensor in tensors(cache):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().contiguous().cpu().reshape(-1)
        state.update(flat.view(torch.uint8).numpy().data)
    return state.hexdigest()


def distance(cache: Any, reference: Any) -> float | None:
    """Largest over tensors of max|a−b| / max|b|; None where the two do not hold the same tensors.

    A layer of `cache` that drops keys behind its window is held against what it would still attend to.
    """
    ours, theirs = dict(tensors(cache)), dict(_attended(cache, reference))
    if {name: value.shape for name, value in ours.items()} != {name: value.shape for name, value in theirs.items()}:
        return None
    return max((relative(ours[name], theirs[name]) for name in ours), default=0.0)


def _attended(cache: Any, reference: Any) -> Iterator[tuple[str, Tensor]]:
    """The reference's tensors, cut to the keys that a windowed layer of `cache` keeps: window − 1, the last ones."""
    windows = {
        str(index): layer.sliding_window
        for index, layer in enumerate(cache.layers)
        if getattr(layer, "is_sliding", False)
    }
    for name, tensor in tensors(reference):
        index, _, attribute = name.partition(".")
        is_cut = index in windows and attribute in ("keys", "values")
        yield name, tensor[..., 1 - windows[index] :, :] if is_cut else tensor


def relative(ours: Tensor, theirs: Tensor) -> float:
    """max|a−b| / max|b|; infinite where it is no number."""
    if ours.numel() == 0:
        return 0.0
    gap = _largest(ours.float() - theirs.float())
    if gap == 0:
        return 0.0
    size = _largest(theirs.float())
    # A NaN gap must read as violated, and every comparison with NaN is false.
    return gap / size if size > 0 and gap == gap else float("inf")


def _largest(tensor: Tensor) -> float:
    """max|a|; NaN where any element is. Twice as quick as by way of all the absolute values."""
    low, high = tensor.aminmax()
    return max(abs(low.item()), abs(high.item()))
