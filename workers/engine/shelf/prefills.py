"""The shelf: states prefilled level by level, and lent to a handle that holds the bytes they go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache

from workers.engine import cache as kv
from workers.engine.base import Chain
from workers.engine.batch import BLOCK_TOKENS, Batch, KeysAndValues, layers_of
from workers.engine.handle import CacheHandle, Lender
from workers.engine.memory import memory_errors
from workers.engine.shelf.kept import Kept, by_layer, fill, holds, joined
from workers.engine.shelf.trie import Node, Trie, groups
from workers.errors import IsolationError

CPU_TOKENS, DEVICE_TOKENS = 256, 4096
"""Ids of one pass, padding included: on a CPU more of them are no faster, and take more memory."""

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
        tolerance: float,
        limit: int | None,
    ) -> Prefills | None:
        """An empty shelf; None where layers are of different shapes, since a node keeps them in one tensor."""
        nothing = [(keys[:, :, :0], values[:, :, :0]) for keys, values in layers_of(alone((0,)))]
        is_even = len({(keys.shape, values.shape) for keys, values in nothing}) == 1
        return cls(new_batch, alone, nothing, tolerance, limit) if is_even else None

    @memory_errors()
    @torch.inference_mode()
    def fill(self, wanted: Iterable[tuple[str, Chain]]) -> None:
        """Prefill (class, chain) pairs, each distinct prefix of a class once and siblings in one batch."""
        for name, chain in wanted:
            if self.limit is None or sum(map(len, chain)) <= self.limit:
                self._trie.add(name, chain)
        new = [self._fill_level(level) for level in self._trie.levels()]
        self._check([node for level in new for node in level])

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds: keys, values, and predictions after the states that were asked for."""
        return sum(node.kept.num_bytes for level in self._trie.levels() for node in level if node.kept is not None)

    def part(self, name: str) -> Lender:
        """What one class may see of it."""
        return _Part(self, name)

    def _fill_level(self, level: Iterable[Node[Kept]]) -> list[Node[Kept]]:
        """Compute what the level lacks; those nodes."""
        lacking = []
        for node in level:
            if node.kept is not None:
                node.kept = node.kept.last(len(node.ids))
            if node.kept is None or (node.is_cut and node.kept.logits is None):
                lacking.append(node)
        for group in groups(lacking, CPU_TOKENS if self.nothing[0][0].is_cpu else DEVICE_TOKENS):
            self._fill_group(group)
        return lacking

    def _fill_group(self, group: Sequence[Node[Kept]]) -> None:
        num_slots = -(-max(node.stop for node in group) // BLOCK_TOKENS) * BLOCK_TOKENS
        batch = self.new_batch(len(group), num_slots)
        for node in group:
            batch.put(self._layers(node.path()[:-1]))
        logits = batch.feed(0, [node.ids for node in group], least=LEAST_QUERIES)
        for row, node in enumerate(group):
            own = batch.cut(row, node.start, node.stop)
            node.kept = Kept.of(own, logits[row] if node.is_cut else None)

    def _layers(self, path: Sequence[Node[Kept]]) -> Sequence[KeysAndValues]:
        return by_layer(*joined(_kept(node) for node in path)) if path else self.nothing

    def _check(self, new: Sequence[Node[Kept]]) -> None:
        """Hold one new state against a pass of its own: the one with the most parents, of another class each time."""
        deepest = {node.path()[0].parent: node for node in new if node.is_cut}
        if not deepest:
            return
        node = list(deepest.values())[self._num_fills % len(deepest)]
        self._num_fills += 1
        found = _apart(node, self.alone(node.prefix()))
        if not found <= self.tolerance:
            raise IsolationError(
                "shelf_differs", f"a state of {node.stop} tokens, prefilled in a batch, lies {found:.1e} from one alone"
            )

    @torch.inference_mode()
    def lend(self, name: str, handle: CacheHandle) -> bool:
        """As `Lender.lend`: the ledger says where to look, and the bytes whether it is that state."""
        if handle.hidden or handle.records_past or handle.shared_by not in (None, name):
            return False
        node = self._trie.find(name, handle.ids)
        if node is None or node.kept is None or node.kept.logits is None:
            return False
        keys, values = joined(map(_kept, node.path()))
        size = handle.num_held
        if not holds(handle.cache, keys[:, :, :size], values[:, :, :size]):
            return False
        fill(handle.cache, keys, values)
        handle.logits = node.kept.logits.clone()
        handle.shared_by = name
        return True


@dataclass(frozen=True, slots=True)
class _Part:
    shelf: Prefills
    name: str

    def lend(self, handle: CacheHandle) -> bool:
        return self.shelf.lend(self.name, handle)


def _apart(node: Node[Kept], alone: CacheHandle) -> float:
    """Largest relative gap between a node's state and one that was computed alone, the prediction included."""
    shared, logits = DynamicCache(), _kept(node).logits
    fill(shared, *joined(map(_kept, node.path())))
    gap = kv.distance(shared, alone.cache)
    if gap is None or logits is None or alone.logits is None:
        return float("inf")
    return max(gap, kv.relative(logits, alone.logits))


def _kept(node: Node[Kept]) -> Kept:
    assert node.kept is not None
    return node.kept
