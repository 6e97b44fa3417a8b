"""A cache of hash-chained pages heals itself: whatever was explored, a request gets a prefix of itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.pages import Pages

Ids = tuple[int, ...]

# Few tokens and short pages, so that pages of different requests are often alike.
requests = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)
histories = st.lists(st.tuples(requests, st.booleans()), max_size=12)


def reused(pages: Pages[Ids], asked: Ids) -> Ids:
    """The tokens whose keys and values the request is given."""
    found = pages.match(asked)
    return tuple(token for page in found for token in page.place[page.stop - pages.size : page.stop])


def filled(pages: Pages[Ids], history: Sequence[tuple[Ids, bool]]) -> Pages[Ids]:
    """A cache after requests, of which some are over."""
    for ids, is_over in history:
        held = pages.enter(ids, ids)
        if is_over:
            pages.release(held)
    return pages


@given(histories, requests, st.integers(1, 4), st.none() | st.integers(1, 6))
def test_what_a_request_reuses_is_a_prefix_of_it(
    history: list[tuple[Ids, bool]], asked: Ids, size: int, capacity: int | None
) -> None:
    pages = filled(Pages(size, capacity), history)
    given_ids = reused(pages, asked)
    assert given_ids == asked[: len(given_ids)]
    # Keys and values depend on all that stood before them, so it is the whole past that must be the request's.
    assert all(page.place[: page.stop] == asked[: page.stop] for page in pages.match(asked))


@given(requests, requests, requests, st.integers(1, 4))
def test_after_an_abort_the_committed_prefix_gets_its_own_full_pages_and_nothing_of_the_branch(
    committed: Ids, branch: Ids, delta: Ids, size: int
) -> None:
    pages = filled(Pages(size), [(committed + branch, True)])
    given_ids = reused(pages, committed)
    assert given_ids == committed[: len(committed) // size * size]
    after = reused(pages, committed + delta)
    assert after == (committed + delta)[: len(after)]


@given(requests, requests, st.integers(1, 4))
def test_who_computed_a_page_makes_no_difference(first: Ids, second: Ids, size: int) -> None:
    ours, theirs = filled(Pages(size), [(first, True), (second, True)]), filled(Pages(size), [(second, True)])
    assert reused(ours, second) == reused(theirs, second)


@given(histories, st.integers(1, 4), st.integers(1, 6))
def test_a_held_page_outlives_any_number_of_requests(history: list[tuple[Ids, bool]], size: int, capacity: int) -> None:
    pages: Pages[Ids] = Pages(size, capacity)
    held = pages.enter((0, 1, 2, 0), (0, 1, 2, 0))
    filled(pages, [(ids, True) for ids, _ in history])
    assert len(pages) <= capacity
    assert [page.name for page in pages.match((0, 1, 2, 0))] == list(held)
    pages.release(held)


def test_only_full_pages_are_found() -> None:
    pages = filled(Pages(4), [((1, 2, 3, 4, 5, 6), True)])
    assert reused(pages, (1, 2, 3, 4, 5, 6)) == (1, 2, 3, 4)
    assert reused(pages, (1, 2, 3)) == ()


def test_a_chain_is_given_up_from_its_end_and_the_longest_unused_first() -> None:
    pages = filled(Pages(1, capacity=4), [((1, 2), True), ((3, 4), True)])
    filled(pages, [((1,), True), ((9,), True)])
    assert reused(pages, (1, 2)) == (1,)
    assert reused(pages, (3, 4)) == (3, 4)


def test_a_request_that_finds_no_room_stays_unnamed() -> None:
    pages = filled(Pages(1, capacity=1), [((1,), False), ((2,), False)])
    assert (reused(pages, (1,)), reused(pages, (2,))) == ((1,), ())


def test_a_page_is_let_go_no_more_often_than_it_is_held() -> None:
    pages: Pages[Ids] = Pages(1)
    held = pages.enter((1,), (1,))
    pages.release(held)
    with pytest.raises(ValueError, match="nobody holds"):
        pages.release(held)


# Planted: what such a cache must not do is found by the property above.


class Parentless(Pages[Ids]):
    """A page is named by its own tokens alone."""

    def _name(self, parent: str, ids: Sequence[int]) -> str:
        return super()._name("", ids)


class OfTheSession(Pages[Ids]):
    """A page is named by its place in the session, whatever its tokens: a retained handle in pages."""

    def _name(self, parent: str, ids: Sequence[int]) -> str:
        return super()._name(parent, ())


@pytest.mark.parametrize(
    ("planted", "explored"),
    [(Parentless, (5, 5, 1, 1)), (OfTheSession, (1, 1, 5, 5))],
)
def test_a_planted_fault_gives_a_request_what_is_not_its_own(planted: type[Pages[Ids]], explored: Ids) -> None:
    asked = (1, 1, 7, 7)
    found = filled(planted(2), [(explored, True)]).match(asked)
    assert any(page.place[: page.stop] != asked[: page.stop] for page in found)
    honest = filled(Pages(2), [(explored, True)]).match(asked)
    assert all(page.place[: page.stop] == asked[: page.stop] for page in honest)
