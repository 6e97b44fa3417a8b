"""Several states side by side, so that one forward pass feeds them all."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from workers.engine.cache import CacheKind
from workers.engine.handle import CacheHandle, Span
from workers.engine.kernels.attention import NAME as INVARIANT
from workers.engine.masking import PROVEN_ATTENTION
from workers.engine.memory import memory_errors

BLOCK_TOKENS = 64
"""Windows are multiples of it, so that a row's kernels do not change with its neighbours' lengths."""

KeysAndValues = tuple[Tensor, Tensor]
"""Of one layer, each `[1, kv_heads, num_tokens, head_dim]`."""


@dataclass(slots=True)
class Row:
    """One state's place in a batch.

    Attributes:
        length: tokens that it holds; token j is in slot j.
        hidden: spans of positions that get no attention.
    """

    length: int
    hidden: tuple[Span, ...] = ()


@dataclass(slots=True)
class _Feed:
    """Where one pass writes: `[num_rows, 1]` rows, `run` where they stand in one, and `[num_rows, num_new]` slots."""

    rows: Tensor
    run: slice | None
    slots: Tensor
    window: int


class SlotLayer(CacheLayerMixin):
    """One layer of all rows: `[row, kv_head, slot, head_dim]`, allocated once, the last slot for what is thrown away.

    transformers writes to it and reads from it as from any cache layer.
    """

    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.is_initialized = True
        self.feed: _Feed | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing is left to do."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> KeysAndValues:
        """Write `[num_rows, kv_heads, num_new, head_dim]` into the rows' own slots; their whole windows."""
        assert self.feed is not None
        assert self.keys is not None
        assert self.values is not None
        rows, slots = self.feed.rows, self.feed.slots
        self.keys[rows, :, slots] = key_states.transpose(1, 2)
        self.values[rows, :, slots] = value_states.transpose(1, 2)
        window = slice(self.feed.window)
        if self.feed.run is None:
            return self.keys[:, :, window][rows[:, 0]], self.values[:, :, window][rows[:, 0]]
        return self.keys[self.feed.run, :, window], self.values[self.feed.run, :, window]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002
        """Not asked: the mask comes with the call."""
        assert self.feed is not None
        return self.feed.window, 0

    def get_seq_length(self) -> int:
        """Not asked: positions come with the call."""
        return self.feed.window if self.feed else 0

    def get_max_length(self) -> int:
        """Slots that hold a token."""
        assert self.keys is not None
        return self.keys.shape[-2] - 1


@dataclass
class Batch:
    """Rows that one forward pass can feed together; each is what it would be alone, up to the kernels' noise.

    Rows 0 to `len(rows)` − 1 are in use, without gaps. Feeding takes a run of them, or some.

    Args:
        keyword: the cache argument of the model's `forward`.
        num_rows: rows that there is room for.
        num_slots: tokens that a row has room for, a multiple of `BLOCK_TOKENS`.
    """

    model: PreTrainedModel
    keyword: str
    num_rows: int
    num_slots: int
    rows: list[Row] = field(default_factory=list)
    _layers: list[SlotLayer] = field(default_factory=list)

    @property
    def num_free(self) -> int:
        """Rows that are not in use."""
        return self.num_rows - len(self.rows)

    @torch.inference_mode()
    def reserve(self, like: Sequence[KeysAndValues]) -> None:
        """Take the memory for states of these layers, if it is not taken yet.

        Raises:
            OutOfMemory: there is less.
        """
        if not self._layers:
            self._layers = [SlotLayer(*(self._buffer(tensor) for tensor in pair)) for pair in like]

    @torch.inference_mode()
    def put(self, layers: Sequence[KeysAndValues], hidden: tuple[Span, ...] = ()) -> int:
        """Copy a state into the next row; the row's number."""
        length = layers[0][0].shape[-2]
        at = self._next(length)
        self.reserve(layers)
        for layer, (keys, values) in zip(self._layers, layers, strict=True):
            _buffer(layer.keys)[at, :, :length] = keys[0]
            _buffer(layer.values)[at, :, :length] = values[0]
        self.rows.append(Row(length, hidden))
        return at

    def copy(self, row: int, length: int) -> int:
        """Copy a row's first tokens into the next row; the new row's number."""
        return self.put(self._views(row, 0, length), self.rows[row].hidden)

    def feed(
        self,
        rows: int | Sequence[int],
        ids: Sequence[Sequence[int]] | Tensor,
        *,
        keeps_all: bool = False,
        least: int = 1,
    ) -> Tensor:
        """Feed each of the rows its own ids (none empty), in one pass.

        Ids are aligned at their ends: what a shorter row lacks at the beginning is padded, and thrown away.

        Args:
            rows: the first of a run of rows, or their numbers.
            ids: for each row; as a tensor `[num_rows, num_new]` they may stay on the device.
            keeps_all: return the logits after every id.
            least: ids that even the longest row is padded to.

        Returns:
            Logits in float32: `[num_rows, vocab]` after each row's last id, or `[num_rows, longest, vocab]`, aligned
            at the end.
        """
        places = list(range(rows, rows + len(ids))) if isinstance(rows, int) else list(rows)
        fed = [self.rows[place] for place in places]
        counts = [len(new) for new in ids]
        longest = max(least, *counts)
        window = self._window(max(row.length + count for row, count in zip(fed, counts, strict=True)))
        device = self.model.device
        padded = _padded(ids, longest, device)
        positions = torch.tensor(
            [_positions(row.length, count, longest) for row, count in zip(fed, counts, strict=True)], device=device
        )
        is_run = places == list(range(places[0], places[0] + len(places)))
        feed = _Feed(
            torch.tensor(places, device=device)[:, None],
            slice(places[0], places[0] + len(places)) if is_run else None,
            positions.where(positions >= 0, self.num_slots),
            window,
        )
        for layer in self._layers:
            layer.feed = feed
        inputs: dict[str, Any] = {
            "input_ids": padded,
            "position_ids": positions.clamp(min=0),
            "attention_mask": self._mask(fed, positions, window),
            "logits_to_keep": 0 if keeps_all else 1,
            self.keyword: Cache(layers=list(self._layers)),
        }
        with torch.inference_mode(), memory_errors():
            logits: Tensor = self.model(**inputs, use_cache=True).logits.float()
        for row, count in zip(fed, counts, strict=True):
            row.length += count
        return logits if keeps_all else logits[:, -1]

    def shorten(self, row: int, length: int) -> None:
        """Forget a row's last tokens: they are in the way of none, since they stand behind all that is seen."""
        self.rows[row].length = length

    def lengthen(self, row: int, length: int) -> None:
        """Take tokens back that were forgotten, and that nothing was fed in the place of."""
        self.rows[row].length = length

    @torch.inference_mode()
    def drop(self, row: int) -> None:
        """Give a row's place to the last one."""
        last = len(self.rows) - 1
        if row != last:
            length = self.rows[last].length
            for layer in self._layers:
                for buffer in (_buffer(layer.keys), _buffer(layer.values)):
                    buffer[row, :, :length] = buffer[last, :, :length]
            self.rows[row] = self.rows[last]
        self.rows.pop()

    @torch.inference_mode()
    def wipe(self, row: int) -> None:
        """Zero a row that holds what is no number: no mask hides that from whoever takes the place."""
        for layer in self._layers:
            _buffer(layer.keys)[row] = 0
            _buffer(layer.values)[row] = 0

    @torch.inference_mode()
    def cut(self, row: int, start: int, stop: int) -> list[KeysAndValues]:
        """Copies of what the row holds of positions `start` to `stop`, layer by layer."""
        return [(keys.clone(), values.clone()) for keys, values in self._views(row, start, stop)]

    def _views(self, row: int, start: int, stop: int) -> list[KeysAndValues]:
        seen = slice(row, row + 1), slice(None), slice(start, stop)
        return [(_buffer(layer.keys)[seen], _buffer(layer.values)[seen]) for layer in self._layers]

    def _next(self, length: int) -> int:
        if len(self.rows) == self.num_rows:
            raise ValueError(f"all {self.num_rows} rows are in use")
        if length > self.num_slots:
            raise ValueError(f"{length} tokens do not fit in {self.num_slots} slots")
        return len(self.rows)

    def _buffer(self, like: Tensor) -> Tensor:
        with memory_errors():
            return like.new_zeros(self.num_rows, like.shape[1], self.num_slots + 1, like.shape[3])

    def _window(self, num_tokens: int) -> int:
        if num_tokens > self.num_slots:
            raise ValueError(f"{num_tokens} tokens do not fit in {self.num_slots} slots")
        return -(-num_tokens // BLOCK_TOKENS) * BLOCK_TOKENS

    def _mask(self, rows: Sequence[Row], positions: Tensor, window: int) -> Tensor:
        """`[num_rows, 1, num_new, window]`: true where attention goes, or the same as what is added to the scores."""
        slots = torch.arange(window, device=positions.device)
        # What pads is thrown away, but a query that sees nothing at all is not a number.
        seen = slots <= positions.clamp(min=0)[..., None]
        for at, row in enumerate(rows):
            for start, stop in row.hidden:
                seen[at, :, start:stop] = False
        seen |= (positions < 0)[..., None] & (slots == 0)
        mask = seen[:, None]
        if self.model.config._attn_implementation != "eager":
            return mask
        least = torch.finfo(self.model.dtype).min
        return torch.zeros_like(mask, dtype=self.model.dtype).masked_fill(~mask, least)


def can_batch(model: PreTrainedModel, kind: CacheKind) -> bool:
    """Whether `Batch` fits the model: plain keys and values of every token, a mask beside positions, on one device.

    Whether it also computes rightly is tried on the model. A rotary switch forbids rows beyond it, which
    `RopeLimit` says.
    """
    parameters = inspect.signature(model.forward).parameters
    return (
        kind.family == "full"
        and kind.is_plain
        and {"position_ids", "attention_mask", "logits_to_keep"} <= parameters.keys()
        and model.config._attn_implementation in (*PROVEN_ATTENTION, INVARIANT)
        and len({parameter.device for parameter in model.parameters()}) == 1
    )


def layers_of(handle: CacheHandle) -> list[KeysAndValues]:
    """The tensors of a handle's cache, layer by layer; of a `full` cache these are all there are."""
    return [(layer.keys, layer.values) for layer in handle.cache.layers]


def _padded(ids: Sequence[Sequence[int]] | Tensor, longest: int, device: torch.device) -> Tensor:
    if isinstance(ids, Tensor):
        return torch.nn.functional.pad(ids, (longest - ids.shape[1], 0))
    return torch.tensor([[0] * (longest - len(new)) + list(new) for new in ids], device=device)


def _positions(length: int, num_new: int, longest: int) -> list[int]:
    """Positions of a row's new tokens, −1 for what pads them."""
    return [-1] * (longest - num_new) + list(range(length, length + num_new))


def _buffer(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor
