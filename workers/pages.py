"""KV pages found by their tokens: a small model of vLLM's automatic prefix cache and SGLang's radix cache.

A page holds the keys and values of a fixed number of tokens. Its name is a hash of its parent's name and of its tokens,
so it stands for a whole prefix and is the same for whoever computed it. Only full pages have a name. A page that a
request holds is never evicted; the others go in the order in which they were last of use, the end of a chain first.
(vLLM: design/prefix_caching; SGLang: arXiv 2312.07104. Both say block where we say page: our block is another thing.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Place = TypeVar("Place")

SIZE = 16
"""Tokens of a page: vLLM's default."""


@dataclass(slots=True)
class Page(Generic[Place]):
    """The keys and values of one page's tokens.

    Attributes:
        place: where they are: the state of the request that computed them.
        stop: tokens of that state up to the page's end.
        num_holders: requests that hold it.
    """

    name: str
    place: Place
    stop: int
    num_holders: int = 0


class Pages(Generic[Place]):
    """What was computed, found by the tokens of the request that asks."""

    def __init__(self, size: int = SIZE, capacity: int | None = None) -> None:
        if size < 1 or (capacity is not None and capacity < 1):
            raise ValueError("a page and a cache hold at least one")
        self.size, self.capacity = size, capacity
        self._pages: dict[str, Page[Place]] = {}
        """By name; those that nobody holds are evicted from the front."""

    def __len__(self) -> int:
        return len(self._pages)

    def enter(self, ids: Sequence[int], place: Place) -> tuple[str, ...]:
        """Hold the full pages of a request that `place` has computed; a page that is known already stays as it is.

        Where every page is held and there is room for no other, the rest of the request stays unnamed.

        Returns:
            What to `release` when the request is over.
        """
        held = []
        for number, name in enumerate(self._names(ids), start=1):
            page = self._pages.pop(name, None)
            if page is None:
                if not self._has_room():
                    break
                page = Page(name, place, number * self.size)
            page.num_holders += 1
            self._pages[name] = page
            held.append(name)
        return tuple(held)

    def release(self, held: Sequence[str]) -> None:
        """Let go of pages; they stay until their room is wanted, the end of the chain the first to go.

        Raises:
            ValueError: nobody holds one of them.
        """
        for name in reversed(held):
            page = self._pages.pop(name, None)
            if page is None or page.num_holders == 0:
                raise ValueError(f"nobody holds the page {name}")
            page.num_holders -= 1
            self._pages[name] = page

    def match(self, ids: Sequence[int]) -> list[Page[Place]]:
        """The longest chain of pages that a request finds, from its first token on."""
        found = []
        for name in self._names(ids):
            if name not in self._pages:
                break
            found.append(self._pages[name])
        return found

    def _names(self, ids: Sequence[int]) -> Iterator[str]:
        parent = ""
        for start in range(0, len(ids) - self.size + 1, self.size):
            parent = self._name(parent, ids[start : start + self.size])
            yield parent

    def _name(self, parent: str, ids: Sequence[int]) -> str:
        text = f"{parent}\x1f{','.join(map(str, ids))}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _has_room(self) -> bool:
        """Make room for one page, if need be and if nobody holds all of them."""
        if self.capacity is None or len(self._pages) < self.capacity:
            return True
        free = next((page.name for page in self._pages.values() if page.num_holders == 0), None)
        if free is None:
            return False
        del self._pages[free]
        return True
