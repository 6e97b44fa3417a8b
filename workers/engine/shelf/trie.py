"""Which prefixes a class asks for, each once: a path-compressed trie of ids. No tensors, so that planners may count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from workers.engine.base import Chain

Kept = TypeVar("Kept")
"""What is kept at a node."""


@dataclass(slots=True, eq=False)
class Node(Generic[Kept]):
    """A run of ids that no asked prefix parts.

    Attributes:
        ids: the node's own, behind those of its parents; empty only at a root.
        start: ids of its parents.
        is_cut: somebody asks for the state after its last id.
        kept: what was computed for its ids; of a node that was parted since, its lower part keeps it.
    """

    ids: tuple[int, ...]
    start: int
    parent: Node[Kept] | None
    is_cut: bool = False
    children: dict[int, Node[Kept]] = field(default_factory=dict)
    kept: Kept | None = None

    @property
    def stop(self) -> int:
        """Ids up to its last, its parents' included."""
        return self.start + len(self.ids)

    def path(self) -> list[Node[Kept]]:
        """The nodes from below the root down to this one."""
        nodes, at = [], self
        while at.parent is not None:
            nodes.append(at)
            at = at.parent
        return nodes[::-1]

    def prefix(self) -> tuple[int, ...]:
        """All ids down to its last."""
        return tuple(token for node in self.path() for token in node.ids)


@dataclass(slots=True)
class Trie(Generic[Kept]):
    """One root a class: what two classes ask for is never one node (DESIGN §4.6).

    Attributes:
        roots: class → its root.
        num_asked: ids of all chains that were added, each computed for itself.
    """

    roots: dict[str, Node[Kept]] = field(default_factory=dict)
    num_asked: int = 0

    def add(self, name: str, chain: Chain) -> Node[Kept]:
        """Have every state of the chain end at a node; the last one's.

        Raises:
            ValueError: a pass of the chain holds no id.
        """
        node = self.roots.setdefault(name, Node((), 0, None))
        for ids in chain:
            if not ids:
                raise ValueError("a pass of a chain holds no id")
            node = _grown(node, ids)
            node.is_cut = True
            self.num_asked += len(ids)
        return node

    def find(self, name: str, ids: Sequence[int]) -> Node[Kept] | None:
        """The node at which these ids end, or None where none does."""
        node, at, ids = self.roots.get(name), 0, tuple(ids)
        while node is not None and at < len(ids):
            node = node.children.get(ids[at])
            if node is not None and ids[at : at + len(node.ids)] != node.ids:
                return None
            at += len(node.ids) if node else 0
        return node if ids else None

    def levels(self) -> Iterator[list[Node[Kept]]]:
        """Nodes of all classes by the number of their parents; each level's parents are the level before."""
        level = [child for root in self.roots.values() for child in root.children.values()]
        while level:
            yield level
            level = [child for node in level for child in node.children.values()]

    @property
    def num_tokens(self) -> int:
        """Distinct prefixes of all classes: ids that are computed where each is computed once."""
        return sum(len(node.ids) for level in self.levels() for node in level)


def _grown(node: Node[Kept], ids: tuple[int, ...]) -> Node[Kept]:
    """The node below `node` at which `ids` (not empty) end; made, or parted from a longer one, where there is none."""
    at = 0
    while at < len(ids):
        child = node.children.get(ids[at])
        if child is None:
            child = node.children[ids[at]] = Node(ids[at:], node.stop, node)
        rest = ids[at:]
        size = len(child.ids)
        if rest[:size] != child.ids:
            size = _common(rest, child.ids)
            child = _parted(child, size)
        node, at = child, at + size
    return node


def _parted(node: Node[Kept], size: int) -> Node[Kept]:
    """A new node of the first `size` ids in the node's place, which itself keeps the rest."""
    upper = Node(node.ids[:size], node.start, node.parent)
    assert node.parent is not None
    node.parent.children[node.ids[0]] = upper
    upper.children[node.ids[size]] = node
    node.ids, node.start, node.parent = node.ids[size:], node.start + size, upper
    return upper


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def groups(nodes: Iterable[Node[Kept]], num_tokens: int, room: int) -> Iterator[list[Node[Kept]]]:
    """Nodes that one pass takes side by side, of a like length; one alone may be larger than the bounds.

    Equal ids stand beside each other, so that what two classes ask for alike is computed in different rows.

    Args:
        num_tokens: bound of rows × the longest's own ids.
        room: bound of rows × the most ids that one has down to its last.
    """
    group: list[Node[Kept]] = []
    most = 0
    for node in sorted(nodes, key=lambda node: (-len(node.ids), node.ids, node.start)):
        rows, most = len(group) + 1, max(most, node.stop)
        longest = len(group[0].ids) if group else 0
        is_padded = longest - len(node.ids) > max(longest // 2, 8)
        if group and (rows * longest > num_tokens or rows * most > room or is_padded):
            yield group
            group, most = [], node.stop
        group.append(node)
    if group:
        yield group
