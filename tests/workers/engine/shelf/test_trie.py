"""A trie holds every asked prefix once, apart by class, and ends a node wherever a state is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine import Chain
from workers.engine.shelf.trie import Node, Trie, groups

# Few ids and short passes, so that chains part and rejoin everywhere.
PASS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
CHAIN = st.lists(PASS, min_size=1, max_size=3).map(tuple)
WANTED = st.lists(st.tuples(st.sampled_from(["session", "fresh"]), CHAIN), max_size=12)

Wanted = list[tuple[str, Chain]]


def grown(wanted: Wanted) -> Trie[str]:
    trie: Trie[str] = Trie()
    for name, chain in wanted:
        trie.add(name, chain)
    return trie


def nodes(trie: Trie[str]) -> list[Node[str]]:
    return [node for level in trie.levels() for node in level]


def cuts(wanted: Wanted) -> set[tuple[str, tuple[int, ...]]]:
    """Every state that is asked for: class and ids."""
    return {
        (name, tuple(token for ids in chain[:number] for token in ids))
        for name, chain in wanted
        for number in range(1, len(chain) + 1)
    }


@given(WANTED)
def test_every_state_of_a_chain_is_a_node_of_its_class(wanted: Wanted) -> None:
    trie = grown(wanted)
    for name, ids in cuts(wanted):
        node = trie.find(name, ids)
        assert node is not None
        assert node.is_cut
        assert node.prefix() == ids
        assert node.stop == len(ids)
        assert node.path()[0].parent is trie.roots[name]


@given(WANTED)
def test_its_tokens_are_the_distinct_prefixes(wanted: Wanted) -> None:
    prefixes = {(name, ids[:stop]) for name, ids in cuts(wanted) for stop in range(1, len(ids) + 1)}
    trie = grown(wanted)
    assert trie.num_tokens == len(prefixes)
    assert trie.num_asked == sum(len(ids) for _, chain in wanted for ids in chain)


@given(WANTED)
def test_a_node_ends_only_where_a_state_is_asked_for_or_prefixes_part(wanted: Wanted) -> None:
    trie, asked = grown(wanted), cuts(wanted)
    assert sum(node.is_cut for node in nodes(trie)) == len(asked)
    for node in nodes(trie):
        assert node.is_cut or len(node.children) > 1
        assert all(child.parent is node and child.ids[0] == first for first, child in node.children.items())


@given(WANTED, st.randoms())
def test_the_order_of_asking_makes_no_difference(wanted: Wanted, random: object) -> None:
    shuffled = list(wanted)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    seen = [
        {
            (name, node.prefix(), node.start, node.is_cut)
            for node in nodes(trie)
            for name in trie.roots
            if node.path()[0].parent is trie.roots[name]
        }
        for trie in (grown(wanted), grown(shuffled))
    ]
    assert seen[0] == seen[1]


@given(WANTED)
def test_a_level_s_parents_are_the_level_before(wanted: Wanted) -> None:
    trie = grown(wanted)
    before = {id(root) for root in trie.roots.values()}
    for level in trie.levels():
        assert {id(node.parent) for node in level} <= before
        before = {id(node) for node in level}


@given(WANTED, PASS)
def test_what_ends_at_no_node_is_not_found(wanted: Wanted, ids: tuple[int, ...]) -> None:
    trie = grown([(name, chain) for name, chain in wanted if name == "session"])
    ends = {node.prefix() for node in nodes(trie)}
    assert (trie.find("session", ids) is not None) == (ids in ends)
    assert trie.find("fresh", ids) is None


@given(WANTED, st.integers(1, 40), st.integers(1, 100))
def test_groups_hold_every_node_once_within_their_bounds(wanted: Wanted, num_tokens: int, room: int) -> None:
    everything = nodes(grown(wanted))
    taken = list(groups(everything, num_tokens, room))
    assert sorted(id(node) for group in taken for node in group) == sorted(map(id, everything))
    for group in taken:
        if len(group) > 1:
            assert len(group) * max(len(node.ids) for node in group) <= num_tokens
            assert len(group) * max(node.stop for node in group) <= room


def test_groups_pad_little() -> None:
    trie = grown([("fresh", (tuple(range(seed, seed + 3 * seed)),)) for seed in range(1, 40)])
    for group in groups(nodes(trie), 10_000, 100_000):
        lengths = [len(node.ids) for node in group]
        assert max(lengths) - min(lengths) <= max(max(lengths) // 2, 8)


def test_a_parted_node_leaves_what_was_kept_to_its_lower_part() -> None:
    trie = grown([("fresh", ((1, 2, 3, 4),))])
    whole = trie.add("fresh", ((1, 2, 3, 4),))
    whole.kept = "tensors"
    upper = trie.add("fresh", ((1, 2),))
    assert (upper.kept, whole.kept, whole.ids, whole.parent) == (None, "tensors", (3, 4), upper)


def test_a_pass_without_ids_is_refused() -> None:
    with pytest.raises(ValueError, match="holds no id"):
        grown([("fresh", ((1,), ()))])
