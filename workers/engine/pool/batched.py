"""The pool of a model whose states can stand side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.engine.alone import Alone
from workers.engine.base import Ask, Decoded, Engine, Handle
from workers.engine.batch import BLOCK_TOKENS, Batch, KeysAndValues, layers_of
from workers.engine.choice import Choice
from workers.engine.handle import CacheHandle
from workers.engine.memory import memory_errors
from workers.engine.passes import known
from workers.engine.pool.lane import Lane
from workers.engine.pool.noise import Proof
from workers.engine.pool.state import State, Ticket, slots_needed
from workers.errors import OutOfMemory

_STEPS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Blocks of a row: few shapes, since each is measured and each is a shape that a sentinel watches."""

_LEAST_REPLIES = 16
"""Replies before it is believed that too many of them are near ties."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a batch may take.

    Attributes:
        num_rows: at most.
        num_bytes: of keys and values.
        sync_every: steps between two looks at what was chosen: on a device each look waits for all steps before.
    """

    num_rows: int
    num_bytes: int
    sync_every: int = 1


def bounds(device: torch.device) -> Bounds:
    """What a batch may take there: on a CPU more rows are hardly faster, a device is to be filled by half."""
    if device.type != "cuda":
        return Bounds(64, 1 << 30)
    return Bounds(256, torch.cuda.mem_get_info(device)[0] // 2, sync_every=8)


@dataclass(frozen=True, slots=True)
class Means:
    """What the pool asks of the engine.

    Attributes:
        engine: decodes alone.
        prefill, feed, fork: on single states, for the probes.
        new_batch: rows and slots → an empty batch on the model.
        token_bytes: of keys and values.
        vocab_size: ids that the model knows.
        eos_ids: tokens that end a reply.
        limit: tokens beyond which the model's rotation switches.
        owned: the handle, known to be the engine's, with what may be lent.
        encode: text → ids.
        decoded: makes a reply of what was chosen.
        restored: a handle of a state's own, from its keys and values.
        few_layers: leaves the model few layers for a while; None where its kernels are not proven invariant.
    """

    engine: Engine
    prefill: Callable[[Sequence[int]], CacheHandle]
    feed: Callable[..., Tensor]
    fork: Callable[[CacheHandle], CacheHandle]
    new_batch: Callable[[int, int], Batch]
    token_bytes: int
    vocab_size: int
    eos_ids: frozenset[int]
    limit: int | None
    owned: Callable[[Handle], CacheHandle]
    encode: Callable[[str], tuple[int, ...]]
    decoded: Callable[[Choice], Decoded]
    restored: Callable[[State, Sequence[KeysAndValues]], CacheHandle]
    few_layers: Callable[[], AbstractContextManager[None]] | None = None


@dataclass
class Batched:
    """Rows of one batch for as many states as there is room for; what does not fit is decoded alone."""

    means: Means
    proof: Proof
    bounds: Bounds
    _lane: Lane | None = None
    _num_rows: int = 0
    _is_alone: bool = False

    def __post_init__(self) -> None:
        """Start on the first rung."""
        self._num_rows = self.bounds.num_rows

    def admit(self, handle: Handle, asks: Sequence[Ask], texts: Sequence[str] = ()) -> Ticket:
        """Take a copy of the state; while all rows are used, step them.

        Raises:
            ValueError: a text is empty, or the state predicts nothing and nothing waits to be fed.
        """
        mine, encoded = self.means.owned(handle), [self.means.encode(text) for text in texts]
        if not all(encoded):
            raise ValueError("cannot score an empty text")
        if not mine.num_queued:
            known(mine)
        lane = self._room(mine, slots_needed(mine, asks, encoded))
        if lane is None:
            return Alone(self.means.engine).admit(mine, asks, texts)
        state = State.of(mine, asks, encoded, lane.shape)
        with memory_errors():
            lane.put(state, layers_of(mine))
        return state

    def drain(self) -> None:
        """Work until every ticket has its answer."""
        self._empty()

    def prove(self) -> str:
        """Measure the noise of the smallest shape, which most grids keep to."""
        slots = _rounded(1)
        if (rows := self._most_rows(slots)) > 1:
            # Where there is not the memory now, there may be, or for fewer rows, when the first state comes.
            with suppress(OutOfMemory), memory_errors():
                self.proof.measure(self.means.new_batch(rows, slots), self.means)
        return self.proof.refusal

    def recheck(self) -> str:
        """Measure every shape once more; a device that is full now says nothing."""
        try:
            with memory_errors():
                return self.proof.recheck(self.means.new_batch, self.means)
        except OutOfMemory:
            return ""

    def _room(self, handle: CacheHandle, need: int) -> Lane | None:
        """A batch with a free row of so many slots; None where the state is to be decoded alone."""
        limit = self.means.limit
        is_beyond = limit is not None and need > limit
        if self.proof.refusal or not handle.num_held or handle.records_past or is_beyond or self._most_rows(need) < 2:
            return None
        if self._is_doubted():
            self._empty()
            return None
        while True:
            if self._lane is None or self._lane.batch.num_slots < need:
                self._empty()
                self._lane = self._opened(_rounded(need), layers_of(handle))
            if self._lane is None or not self._lane.is_full:
                return self._lane
            # A pass over few rows costs nearly as much as one over many: wait until several are free.
            self._work(self._lane, max(1, self._lane.batch.num_rows // 4))

    def _is_doubted(self) -> bool:
        """Whether so many replies are near ties that decoding them in a batch saves nothing."""
        if self._lane is not None and self._lane.num_replies >= _LEAST_REPLIES:
            self._is_alone |= self._lane.num_again * 2 > self._lane.num_replies
        return self._is_alone

    def _opened(self, slots: int, layers: Sequence[KeysAndValues]) -> Lane | None:
        """An empty batch with as many rows as there is memory for; None where two are too many."""
        rows = self._most_rows(slots)
        while rows > 1:
            try:
                with memory_errors():
                    return self._proven(rows, slots, layers)
            except OutOfMemory:
                rows //= 2
                self._num_rows = rows
        return None

    def _most_rows(self, num_tokens: int) -> int:
        rows = min(self._num_rows, self.bounds.num_bytes // (_rounded(num_tokens) * max(1, self.means.token_bytes)))
        return rows - rows % 8 if rows > 8 else rows

    def _proven(self, rows: int, slots: int, layers: Sequence[KeysAndValues]) -> Lane | None:
        batch = self.means.new_batch(rows, slots)
        batch.reserve(layers)
        noise = self.proof.measure(batch, self.means)
        if noise is None:
            return None
        return Lane(batch, noise, self.bounds.sync_every, self.means.eos_ids, self.means.decoded, self._redone)

    def _redone(self, state: State, layers: list[KeysAndValues], ask: Ask) -> Decoded:
        return self.means.engine.decode(self.means.restored(state, layers), ask.max_new_tokens, ask.stream)

    def _work(self, lane: Lane, num_free: int) -> None:
        """Work on the rows; what a full device interrupts is given up, and fewer rows are tried for what comes."""
        try:
            with memory_errors():
                lane.work(num_free)
        except OutOfMemory as full:
            for seat in lane.seats:
                seat.state.fail(full)
            self._num_rows = lane.batch.num_rows // 2
            self._lane = None

    def _empty(self) -> None:
        """Finish all rows, and give their memory back."""
        if self._lane is not None:
            self._work(self._lane, self._lane.batch.num_rows)
        self._lane = None


def _rounded(num_tokens: int) -> int:
    blocks = -(-num_tokens // BLOCK_TOKENS)
    return BLOCK_TOKENS * next((step for step in _STEPS if step >= blocks), blocks)
