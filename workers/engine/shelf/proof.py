"""What is compared before a shelf is believed: a state with a pass of its own, and one class's with the others'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from transformers import DynamicCache

from workers.engine import cache as kv
from workers.engine.handle import CacheHandle
from workers.engine.shelf.kept import Kept, joined, kept, load
from workers.engine.shelf.trie import Node
from workers.errors import IsolationError


def check_alone(node: Node[Kept], alone: CacheHandle, tolerance: float) -> None:
    """Hold a node's state and its prediction against a pass over all of its ids.

    Raises:
        IsolationError: they lie further apart than two honest passes do.
    """
    shared, logits = DynamicCache(), kept(node).logits
    load(shared, *joined(map(kept, node.path())))
    gap = kv.distance(shared, alone.cache)
    assert gap is not None
    assert logits is not None
    assert alone.logits is not None
    found = max(gap, kv.relative(logits, alone.logits))
    if not found <= tolerance:
        _refuse(node, found, "computed alone")


def check_twins(nodes: Iterable[Node[Kept]], tolerance: float) -> None:
    """Hold nodes of the same ids against each other: classes compute them in different rows, so one bad row shows.

    Numbers that are none are let pass: such a state is lent to nobody.

    Raises:
        IsolationError: they lie further apart than two honest passes do.
    """
    for first, other in _twins(nodes):
        pairs = ((kept(first).keys, kept(other).keys), (kept(first).values, kept(other).values))
        found = max(float(_apart(ours, theirs)) for ours, theirs in pairs)
        if found > tolerance:
            _refuse(other, found, "computed for another class")


def _twins(nodes: Iterable[Node[Kept]]) -> Iterator[tuple[Node[Kept], Node[Kept]]]:
    alike: dict[tuple[int, tuple[int, ...]], list[Node[Kept]]] = defaultdict(list)
    for node in nodes:
        alike[node.start, node.prefix()].append(node)
    for first, *others in alike.values():
        yield from ((first, other) for other in others)


def _apart(ours: Tensor, theirs: Tensor) -> Tensor:
    """Largest over layers of max|a−b| / max|b|."""
    gaps, sizes = ((tensor.abs().amax((1, 2, 3))) for tensor in (ours.float() - theirs.float(), theirs.float()))
    return torch.nan_to_num(gaps / sizes).max()


def _refuse(node: Node[Kept], found: float, other: str) -> None:
    raise IsolationError(
        "shelf_differs", f"a state of {node.stop} tokens, prefilled in a batch, lies {found:.1e} from the one {other}"
    )
