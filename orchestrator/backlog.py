"""One model's work: the blocks left, how often each was lost, and why the rest will not run. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, Self, TypeVar

from workers.block import Block


class Unmade(Protocol):
    """A block before it is submitted: it is counted, queued and halved without its texts. Hashable by what it holds."""

    @property
    def num_trials(self) -> int:
        """Trials to record."""

    @property
    def num_episodes(self) -> int:
        """Works in it."""

    def halves(self) -> tuple[Self, Self]:
        """Two smaller ones; only for one of more than one work."""

    def made(self) -> Block:
        """The block as a worker takes it."""


B = TypeVar("B", bound=Unmade)

SPLIT_AT = 2
"""Losses at which a block of several episodes is halved."""
MAX_BARREN = 12
"""Losses in a row, without a committed block, beyond three rounds of all slots: above any honest bisection."""


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
        self._returned: deque[B] = deque()
        self._losses: dict[B, int] = {}
        self._peak = 1
        self._load_failures = 0
        self._barren = 0
        self._busy_s = 0.0
        self._num_done = 0
        self._starved_since: float | None = None
        self.num_blocks = len(blocks)
        self.num_trials = sum(block.num_trials for block in blocks)
        self.slots: set[int] = set()
        self.num_loading = 0
        self.has_loaded = False
        self.load_s: float | None = None
        self.barred: str | None = None
        self.is_stopped = False
        self.missing: list[tuple[B, str]] = []

    @property
    def trial_s(self) -> float | None:
        """Seconds a trial took so far; None before the first block is done."""
        return self._busy_s / self._num_done if self._num_done else None

    def take(self) -> B:
        """The next block; what was lost comes before what was never tried."""
        block = self._returned.popleft() if self._returned else next(self._untouched)
        self.num_blocks -= 1
        self.num_trials -= block.num_trials
        return block

    def give_back(self, blocks: Iterable[B]) -> None:
        """Queue again, at the front and in the same order, what a slot had taken."""
        returned = list(blocks)
        self._returned.extendleft(reversed(returned))
        self.num_blocks += len(returned)
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

    def done(self, num_trials: int, wall_s: float) -> None:
        """A block is committed."""
        self._barren = 0
        self._num_done += num_trials
        self._busy_s += wall_s

    def load_failed(self, reason: str) -> None:
        """A slot died while loading; after one such failure a slot and two more, none is opened again."""
        self._load_failures += 1
        if self._load_failures >= 2 + self._peak:
            self.bar(reason)

    def lost(self, block: B, max_losses: int, reason: str) -> None:
        """A worker died over `block`: queue it again, in halves at the second loss, or give its one episode up."""
        losses = self._losses.pop(block, 0) + 1
        if block.num_episodes > 1 and losses >= SPLIT_AT:
            halves = block.halves()
            # A half is suspect from the start, so that each level of the bisection costs one worker and not two.
            self._losses.update((half, SPLIT_AT - 1) for half in halves)
            self.give_back(halves)
        elif block.num_episodes == 1 and losses >= max_losses:
            self.missing.append((block, reason))
        else:
            self._losses[block] = losses
            self.give_back([block])
        self._barren += 1
        if self._barren >= MAX_BARREN + 3 * self._peak:
            self.bar(f"{self._barren} workers failed in a row, without a block done; the last: {reason}")

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
        self.missing += [(self.take(), reason) for _ in range(self.num_blocks)]
