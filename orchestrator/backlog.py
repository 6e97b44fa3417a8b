"""One model's work: the blocks left, how each of them failed, and why the rest will not run. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, Self, TypeVar

from orchestrator.history import Fall, History
from workers.block import Block


class Unmade(Protocol):
    """A block before it is submitted: it is counted, queued and halved without its texts. Hashable by what it holds."""

    @property
    def num_trials(self) -> int:
        """Trials to record."""

    def halves(self) -> tuple[Self, Self]:
        """Two smaller ones, equal in trials; only for one of more than one."""

    def made(self, attempt: int = 1) -> Block:
        """The block as a worker takes it, the so many-th time."""


B = TypeVar("B", bound=Unmade)

MAX_BARREN = 20
"""Losses in a row, without a committed block, beyond three rounds of all slots: above any honest bisection."""
MAX_SIZE = 8
"""The largest slot that is tried for a block that ran out of memory, as a multiple of what its model asks for."""


class Backlog(Generic[B]):
    """The blocks of one model, and what is known of running them.

    Attributes:
        num_blocks, num_trials: what is queued; what a slot has taken is not.
        slots: the open slots that hold the model.
        num_loading: how many of them have not loaded it yet.
        barred: why no slot is opened for it any more.
        is_stopped: no further block of it may run, not even on a slot that has loaded it.
        load_s: what the last load took.
        missing: blocks given up, with the reason.
    """

    def __init__(self, blocks: Sequence[B]) -> None:
        self._untouched = iter(blocks)
        self._num_untouched = len(blocks)
        self._returned: deque[B] = deque()
        self._histories: dict[B, History] = {}
        self._peak = 1
        self._load_failures = 0
        self._barren = 0
        self._busy_s = 0.0
        self._num_done = 0
        self._starved_since: float | None = None
        self._most_size = MAX_SIZE
        self.num_trials = sum(block.num_trials for block in blocks)
        self.slots: set[int] = set()
        self.num_loading = 0
        self.has_loaded = False
        self.load_s: float | None = None
        self.barred: str | None = None
        self.is_stopped = False
        self.missing: list[tuple[B, str]] = []

    @property
    def num_blocks(self) -> int:
        """What is queued."""
        return self._num_untouched + len(self._returned)

    @property
    def trial_s(self) -> float | None:
        """Seconds a trial took so far; None before the first block is done."""
        return self._busy_s / self._num_done if self._num_done else None

    def take(self, suits: Callable[[History], bool] = lambda _: True) -> B | None:
        """The next block whose history suits; what was lost comes before what was never tried."""
        block = next((one for one in self._returned if suits(self.history(one))), None)
        if block is not None:
            self._returned.remove(block)
        elif self._num_untouched and suits(_NONE):
            block = next(self._untouched)
            self._num_untouched -= 1
        if block is not None:
            self.num_trials -= block.num_trials
        return block

    def history(self, block: B) -> History:
        """How often the block failed before."""
        return self._histories.get(block, _NONE)

    def size_wanted(self, sizes: Iterable[int]) -> int:
        """The slot to open next, beside open ones of these sizes."""
        largest = max((self.history(block).needs for block in self._returned), default=1)
        return largest if largest > max(sizes, default=0) else 1

    def has_for(self, size: int) -> bool:
        """Whether something is queued that a slot of that size may take."""
        return self._num_untouched > 0 or any(self.history(block).needs <= size for block in self._returned)

    def limit_size(self, size: int) -> None:
        """No larger slot than this fits anywhere: what asked for one takes what there is."""
        self._most_size = size
        for block in self._returned:
            if (history := self.history(block)).needs > size:
                self._histories[block] = history.limited(size)

    def give_back(self, blocks: Iterable[B]) -> None:
        """Queue again, at the front and in the same order, what a slot had taken."""
        returned = list(blocks)
        self._returned.extendleft(reversed(returned))
        self.num_trials += sum(block.num_trials for block in returned)

    def opened(self, slot: int) -> None:
        """A slot starts to load the model."""
        self.slots.add(slot)
        self.num_loading += 1
        self._peak = max(self._peak, len(self.slots))
        self._starved_since = None

    def loaded(self, load_s: float) -> None:
        """A slot has loaded the model."""
        self.num_loading -= 1
        self._load_failures = 0
        self.has_loaded = True
        self.load_s = load_s

    def done(self, block: B, num_trials: int, wall_s: float) -> History:
        """A block is committed; what had happened to it before."""
        self._barren = 0
        self._num_done += num_trials
        self._busy_s += wall_s
        return self._histories.pop(block, _NONE)

    def load_failed(self, reason: str) -> None:
        """A slot died while loading; after one such failure a slot and two more, none is opened again."""
        self._load_failures += 1
        if self._load_failures >= 2 + self._peak:
            self.bar(reason)

    def lost(self, block: B, fall: Fall, reason: str) -> History | None:
        """A worker failed over `block`: queue it again, or its halves; its history where its one trial is given up."""
        history = self._histories.pop(block, _NONE).after(fall, self._most_size)
        is_enough = history.is_enough(fall.failure, block.num_trials)
        if is_enough and block.num_trials > 1:
            halves = block.halves()
            self._histories.update((half, history.of_half(fall.failure)) for half in halves)
            self.give_back(halves)
        elif not is_enough:
            self._histories[block] = history
            self.give_back([block])
        self._barren += 1
        if self._barren >= MAX_BARREN + 3 * self._peak:
            self.bar(f"{self._barren} workers failed in a row, without a block done; the last: {reason}")
        return history if is_enough and block.num_trials == 1 else None

    def starved(self, now_s: float, patience_s: float, reason: str) -> None:
        """Nowhere would a slot fit; a model that was loaded here before may wait for its machines to come back."""
        if self._starved_since is None:
            self._starved_since = now_s
        if not self.has_loaded or now_s - self._starved_since >= patience_s:
            self.bar(reason)

    def bar(self, reason: str) -> None:
        """Open no more slots. Those that have loaded the model go on; the first reason stays."""
        self.barred = self.barred or reason

    def stop(self, reason: str) -> None:
        """Run no further block: what computes them was found wrong. What was said before counts for less."""
        if not self.is_stopped:
            self.barred, self.is_stopped = reason, True

    def give_up(self, reason: str) -> None:
        """Count everything queued as missing."""
        while (block := self.take()) is not None:
            self.missing.append((block, reason))


_NONE = History()
