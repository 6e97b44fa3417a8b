"""Ids in columns are the ids they were made of, and each is found where it stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ids import NO_ID, Ids

# Halves from a small range, so that many ids agree in one of them.
HALVES = st.integers(0, 3).map(lambda number: f"{number:016x}")
HEX = st.builds(str.__add__, HALVES, HALVES)


@given(st.lists(HEX))
def test_ids_are_read_back_as_they_were_given(texts: list[str]) -> None:
    assert list(Ids.of(texts)) == texts
    assert [Ids.of(texts)[at] for at in range(len(texts))] == texts


@given(st.lists(HEX, unique=True), st.lists(HEX))
def test_an_id_is_found_where_it_stands_and_nowhere_else(known: list[str], wanted: list[str]) -> None:
    expected = [known.index(text) if text in known else -1 for text in wanted]
    assert Ids.of(known).find(Ids.of(wanted)).tolist() == expected


@given(st.lists(HEX, min_size=1, unique=True), st.data())
def test_taken_ids_keep_the_order_asked_for(known: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(known) - 1)))
    assert list(Ids.of(known).take(np.array(rows, dtype=np.int64))) == [known[at] for at in rows]


@pytest.mark.parametrize("strange", [None, "", "abc", "x" * 32, "0" * 31 + " ", "0" * 33, "é" * 32])
def test_what_is_no_id_is_found_nowhere_and_hides_no_other(strange: str | None) -> None:
    known = ["1" * 32, "2" * 32]
    found = Ids.of([known[1], strange, known[0]])
    assert list(found) == [known[1], NO_ID, known[0]]
    assert Ids.of(known).find(found).tolist() == [1, -1, 0]
