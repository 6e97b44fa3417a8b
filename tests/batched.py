"""The null engine with a pool that answers late, and whose answers a test may spoil."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from workers.engine import Answer, Ask, Chain, Engine, Handle, Pool, Shelf
from workers.engine.alone import Alone
from workers.engine.null import NullEngine
from workers.spec import ModelSpec

SHAPE = "2x64"
Spoil = Callable[[int, Answer], Answer]
"""(number of the admission, what is right) → what the pool says."""


def honest(_: int, answer: Answer) -> Answer:
    """What is right."""
    return answer


def on_row(number: int) -> Spoil:
    """Another reply than the model's in one row."""

    def spoil(at: int, answer: Answer) -> Answer:
        wrong = tuple(replace(reply, ids=(*reply.ids, 33), text=reply.text + "!") for reply in answer.replies)
        return replace(answer, replies=wrong) if at == number else answer

    return spoil


@dataclass
class EmptyShelf:
    """Keeps nothing, and remembers what it was asked for."""

    asked: list[tuple[str, Chain]] = field(default_factory=list)
    num_bytes: int = 0

    def fill(self, wanted: Iterable[tuple[str, Chain]]) -> None:
        """Nothing is computed."""
        self.asked += wanted


@dataclass
class Late:
    """A ticket."""

    found: Answer | None = None

    def answer(self) -> Answer:
        """Once it is there."""
        if self.found is None:
            raise ValueError("the pool has not come to it yet")
        return self.found


@dataclass
class LatePool:
    """Copies states as they come in, and decodes them when it is drained."""

    engine: Engine
    spoil: Spoil
    admitted: list[tuple[Handle, Sequence[Ask], Sequence[str], Late]] = field(default_factory=list)

    def admit(self, handle: Handle, asks: Sequence[Ask], texts: Sequence[str] = ()) -> Late:
        """A copy."""
        self.admitted.append((self.engine.fork(handle), asks, texts, Late()))
        return self.admitted[-1][-1]

    def prove(self) -> str:
        """What is planted begins later."""
        return ""

    def recheck(self) -> str:
        """And is not of this kind."""
        return ""

    def drain(self) -> None:
        """One after the other, each said to come from a batch."""
        for at, (state, asks, texts, ticket) in enumerate(self.admitted):
            answer = Alone(self.engine).admit(state, asks, texts).answer()
            ticket.found = self.spoil(at, replace(answer, batch=SHAPE))


class Batched(NullEngine):
    """A null engine that shares and batches."""

    def __init__(self, spec: ModelSpec, spoil: Spoil = honest, shelf_bytes: int = 0) -> None:
        super().__init__(spec)
        self.shelf_bytes = shelf_bytes
        self.spoil = spoil
        self.pools: list[LatePool] = []
        self.shelves: list[EmptyShelf] = []

    def shelf(self) -> Shelf:  # type: ignore[override]
        """An empty one."""
        self.shelves.append(EmptyShelf(num_bytes=self.shelf_bytes))
        return self.shelves[-1]

    def pool(self, *, is_batched: bool, is_timed: bool = True) -> Pool:
        """A late one, where it is asked for."""
        if not is_batched:
            return super().pool(is_batched=False)
        self.pools.append(LatePool(self, self.spoil))
        return self.pools[-1]
