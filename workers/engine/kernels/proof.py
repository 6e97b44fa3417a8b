"""What is tried on the kernels at every start: a row's bits may depend on nothing but the row.

That is a property of the kernels that this machine's libraries choose, and no promise of theirs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from workers.engine.cache import CacheKind
from workers.engine.kernels.shallow import shallow

_LONG = 68
"""Tokens of the probe whose window is 128 keys; alone, that of the others is 64."""
_SHORT = (9, 24, 4, 7, 15)
_CUT = 44
"""Where the long probe is cut into two passes."""
_CROSSING = 62
"""Where its steps begin, so that one of them opens the second block of 64 keys."""
_NUM_STEPPING = 16
"""Rows of the batch that decodes."""
_MANY = 320
"""Rows that each shape of linear layer is given at once, as a large prefill does."""

Trace = tuple[Tensor, ...]
"""One row: logits `[T, vocab]`, then keys or values `[kv_heads, T, dim]` of every layer."""


def prove(model: PreTrainedModel) -> str | None:
    """Compute random rows in several ways, and compare logits, keys and values bit by bit.

    Layers of equal shapes run the same kernels, so one that repeats those before it is left out.

    The ways: alone in one pass, in two, in steps of one token; in padded batches of 2 and 5; in steps of 16 rows; and
    every shape of linear layer with many rows.

    Returns:
        Where two ways differ, or what the model raised; None where every bit is equal.
    """
    try:
        with torch.inference_mode(), shallow(model):
            return _Trial(model).run()
    except Exception as error:  # whatever a model's own code makes of other kernels
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class _Trial:
    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._keyword = CacheKind.of(model).keyword
        self._noise = torch.Generator().manual_seed(0)
        self._num_tokens = model.config.get_text_config(decoder=True).vocab_size

    def run(self) -> str | None:
        long, others = self._ids(_LONG), [self._ids(length) for length in _SHORT]
        whole, cache = self._pass(long)
        alone = [self._pass(row)[0] for row in others]
        ways = {
            "in two passes": lambda: self._parts(long, whole, cache, [_CUT]),
            "in steps": lambda: self._parts(long, whole, cache, list(range(_CROSSING, _LONG))),
            f"in steps of {_NUM_STEPPING}": lambda: self._stepped(long, whole, cache),
            "in a batch of 2": lambda: self._batch([others[0], long], [alone[0], whole]),
            f"in a batch of {len(others)}": lambda: self._batch(others, alone),
            "among many": self._many,
        }
        return next((f"a row computed {way} is another than alone" for way, holds in ways.items() if not holds()), None)

    def _ids(self, length: int) -> Tensor:
        return torch.randint(self._num_tokens, (length,), generator=self._noise)

    def _pass(self, ids: Tensor) -> tuple[Trace, Any]:
        cache = DynamicCache()
        return _trace(self._forward(ids[None], cache), cache, 0, len(ids)), cache

    def _parts(self, ids: Tensor, whole: Trace, cache: Any, cuts: list[int]) -> bool:
        """Whether passes behind the first cut, from one cut to the next, give what one pass over all gave."""
        state = _cut(cache, cuts[0])
        parts = ids[None, cuts[0] :].tensor_split([cut - cuts[0] for cut in cuts[1:]], dim=1)
        logits = torch.cat([self._forward(part, state) for part in parts], dim=1)
        return _same((whole[0][cuts[0] :], *whole[1:]), _trace(logits, state, 0, len(ids)))

    def _stepped(self, ids: Tensor, whole: Trace, cache: Any) -> bool:
        """Whether one of many rows that step behind one prefix gives what one pass gave, and the last what it does."""
        state = _cut(cache, _CROSSING)
        state.batch_repeat_interleave(_NUM_STEPPING)
        tokens = self._ids(_NUM_STEPPING * (_LONG - _CROSSING)).view(_NUM_STEPPING, -1)
        tokens[0] = ids[_CROSSING:]
        logits = torch.cat([self._forward(step, state) for step in torch.split(tokens, 1, dim=1)], dim=1)
        last, _ = self._pass(torch.cat((ids[:_CROSSING], tokens[-1])))
        return all(
            _same((trace[0][_CROSSING:], *trace[1:]), _trace(logits, state, row, _LONG))
            for row, trace in ((0, whole), (_NUM_STEPPING - 1, last))
        )

    def _batch(self, rows: Sequence[Tensor], alone: Sequence[Trace]) -> bool:
        """Whether one pass over rows of several lengths, left-aligned and masked, gives what each gave alone."""
        lengths = torch.tensor([len(row) for row in rows])
        padded = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
        positions = torch.arange(padded.shape[1])
        is_real = positions < lengths[:, None]
        mask = is_real[:, None, :, None] & is_real[:, None, None, :] & (positions <= positions[:, None])
        cache = DynamicCache()
        logits = self._forward(padded, cache, attention_mask=mask, position_ids=positions.expand(padded.shape))
        return all(_same(trace, _trace(logits, cache, row, len(rows[row]))) for row, trace in enumerate(alone))

    def _many(self) -> bool:
        layers = [module for module in self._model.modules() if isinstance(module, nn.Linear)]
        return all(map(self._holds, {(layer.in_features, layer.out_features): layer for layer in layers}.values()))

    def _holds(self, layer: nn.Linear) -> bool:
        rows = torch.randn(_MANY, layer.in_features, generator=self._noise)
        among = layer(rows)
        return all(torch.equal(among[-size:], layer(rows[-size:])) for size in (1, 2, 5))

    def _forward(self, ids: Tensor, cache: Any, **inputs: Tensor) -> Tensor:
        start = cache.get_seq_length()
        positions = torch.arange(start, start + ids.shape[1]).expand(ids.shape)
        inputs = {"input_ids": ids, self._keyword: cache, "position_ids": positions} | inputs
        logits: Tensor = self._model(**inputs, use_cache=True).logits
        return logits


def _cut(cache: Any, length: int) -> Any:
    state = copy.deepcopy(cache)
    state.crop(length - state.get_seq_length())
    return state


def _trace(logits: Tensor, cache: Any, row: int, length: int) -> Trace:
    states = [state[row, :, :length] for layer in cache.layers for state in (layer.keys, layer.values)]
    return (logits[row, :length], *states)


def _same(one: Trace, other: Trace) -> bool:
    # A row of NaN equals nothing, itself included.
    return len(one) == len(other) and all(map(torch.equal, one, other))
