"""The shelf: states prefilled level by level, and lent to a handle that holds the bytes they go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workers.engine.base import Chain
from workers.engine.batch import BLOCK_TOKENS, Batch, KeysAndValues
from workers.engine.handle import CacheHandle, Lender
from workers.engine.memory import memory_errors
from workers.engine.shelf.kept import Kept, by_layer, holds, joined, kept, load
from workers.engine.shelf.proof import check_alone, check_twins
from workers.engine.shelf.trie import Node, Trie, groups

CPU_TOKENS, DEVICE_TOKENS = 256, 4096
"""Ids of one pass, padding included: on a CPU more of them are no faster, and take more memory."""

ROOM = 16
"""Tokens of a batch's rows, those that they hold included, for each id of a pass."""

LEAST_QUERIES = 4
"""Ids that a row is padded to: with fewer, the kernels of a long pass are not those of a short one."""


@dataclass
class Prefills:
    """States of one model, one trie a class.

    Args:
        new_batch: rows and slots → an empty batch on the model.
        alone: ids → the state after a pass of their own.
        nothing: keys and values of no token, layer by layer.
        tolerance: how far apart two honest passes may lie (`Facts.layer1_tolerance`).
        limit: tokens beyond which nothing is put on the shelf.
    """

    new_batch: Callable[[int, int], Batch]
    alone: Callable[[tuple[int, ...]], CacheHandle]
    nothing: Sequence[KeysAndValues]
    tolerance: float
    limit: int | None
    _trie: Trie[Kept] = field(default_factory=Trie)
    _num_fills: int = 0

    @classmethod
    def of(
        cls,
        new_batch: Callable[[int, int], Batch],
        alone: Callable[[tuple[int, ...]], CacheHandle],
        layers: Sequence[KeysAndValues],
        tolerance: float,
        limit: int | None,
    ) -> Prefills | None:
        """An empty shelf for such layers; None where they differ in shape: a node keeps them in one tensor."""
        nothing = [(keys[:, :, :0].clone(), values[:, :, :0].clone()) for keys, values in layers]
        is_even = len({(keys.shape, values.shape) for keys, values in nothing}) == 1
        return cls(new_batch, alone, nothing, tolerance, limit) if is_even else None

    @memory_errors()
    @torch.inference_mode()
    def fill(self, wanted: Iterable[tuple[str, Chain]]) -> None:
        """Prefill (class, chain) pairs, each distinct prefix of a class once and siblings in one batch."""
        for name, chain in wanted:
            if self.limit is None or sum(map(len, chain)) <= self.limit:
                self._trie.add(name, chain)
        levels = [list(filter(_lacks, level)) for level in self._trie.levels()]
        new = [node for level in levels for node in level]
        try:
            self._compute(levels)
            self._check(new)
        except BaseException:
            # What was not checked is lent to nobody.
            for node in new:
                node.kept = None
            raise

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds: keys, values, and predictions after the states that were asked for."""
        return sum(node.kept.num_bytes for level in self._trie.levels() for node in level if node.kept is not None)

    def part(self, name: str) -> Lender:
        """What one class may see of it."""
        return _Part(self, name)

    def _compute(self, levels: Iterable[list[Node[Kept]]]) -> None:
        """Parents before children, in one batch that the next pass writes over."""
        num_tokens = CPU_TOKENS if self.nothing[0][0].is_cpu else DEVICE_TOKENS
        passes = [group for level in levels for group in groups(level, num_tokens, ROOM * num_tokens)]
        longest = max((node.stop for group in passes for node in group), default=0)
        shape = max(map(len, passes), default=0), -(-longest // BLOCK_TOKENS) * BLOCK_TOKENS
        batch = self.new_batch(*shape)
        for group in passes:
            logits = self._prefill(batch, group)
            batch.rows.clear()
            if logits.isnan().any():
                # No mask hides what is no number from the rows that take its place.
                batch = self.new_batch(*shape)

    def _prefill(self, batch: Batch, group: Sequence[Node[Kept]]) -> Tensor:
        for node in group:
            batch.put(self._layers(node.path()[:-1]))
        logits = batch.feed(0, [node.ids for node in group], least=LEAST_QUERIES)
        for row, node in enumerate(group):
            is_lent = node.is_cut and not logits[row].isnan().any()
            node.kept = Kept.of(batch.cut(row, node.start, node.stop), logits[row] if is_lent else None)
        return logits

    def _layers(self, path: Sequence[Node[Kept]]) -> Sequence[KeysAndValues]:
        return by_layer(*joined(map(kept, path))) if path else self.nothing

    def _check(self, new: Sequence[Node[Kept]]) -> None:
        """Hold what is new against other classes, and one state, of another class each time, against a pass alone."""
        check_twins(new, self.tolerance)
        deepest = {node.path()[0].parent: node for node in new if kept(node).logits is not None}
        if deepest:
            node = list(deepest.values())[self._num_fills % len(deepest)]
            self._num_fills += 1
            check_alone(node, self.alone(node.prefix()), self.tolerance)

    @torch.inference_mode()
    def lend(self, name: str, handle: CacheHandle) -> bool:
        """As `Lender.lend`: the ledger says where to look, and the bytes whether it is that state.

        What a class lent is continued from that class's part, whoever feeds it, and what was computed from none.
        """
        if handle.hidden or handle.records_past or (handle.num_held and handle.shared_by is None):
            return False
        name = handle.shared_by or name
        node, size = self._trie.find(name, handle.ids), handle.num_held
        path = [part.kept for part in node.path()] if node else []
        run = [part for part in path if part is not None]
        if not run or len(run) < len(path) or run[-1].logits is None:
            return False
        keys, values = joined(run)
        if not holds(handle.cache, keys[:, :, :size], values[:, :, :size]):
            return False
        load(handle.cache, keys, values)
        handle.logits = run[-1].logits.clone()
        handle.shared_by = name
        return True


@dataclass(frozen=True, slots=True)
class _Part:
    shelf: Prefills
    name: str

    def lend(self, handle: CacheHandle) -> bool:
        return self.shelf.lend(self.name, handle)


def _lacks(node: Node[Kept]) -> bool:
    """Whether something is to be computed; what is left of a node that was parted is cut to its own tokens."""
    if node.kept is not None:
        node.kept = node.kept.last(len(node.ids))
    return node.kept is None or (node.is_cut and node.kept.logits is None)
