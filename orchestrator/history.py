"""What is known of a block that failed: how often, of what, and where; and when that is enough. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from orchestrator.executors.base import FailureClass


class Budget(NamedTuple):
    """What a class of failures may cost (DESIGN §4.7).

    Attributes:
        whole: failures at which a block of several trials is halved; those before are tried again elsewhere.
        alone: failures at which a trial alone is recorded as an error.
    """

    whole: int
    alone: int


BUDGETS: Mapping[FailureClass, Budget] = {
    FailureClass.LOST: Budget(2, 3),
    FailureClass.BUG: Budget(2, 2),
    FailureClass.MEMORY: Budget(2, 2),
    FailureClass.HUNG: Budget(2, 2),
    # A machine that is taken away says little of what ran on it, but a block may be what takes machines down.
    FailureClass.PREEMPTED: Budget(4, 6),
}

OF_THE_PLACE = {FailureClass.LOST, FailureClass.BUG, FailureClass.HUNG}
"""Failures that a broken device brings about."""


class Fall(NamedTuple):
    """One failure: of what class, where, and which in the order of the run's failures."""

    failure: FailureClass
    place: str
    number: int


@dataclass(frozen=True, slots=True)
class History:
    """A block's failures.

    Attributes:
        counts: class → failures held against it.
        falls: all that it, or a larger block that held it, went through.
        needs: the slot it is given at least, as a multiple of what its model asks for.
    """

    counts: Mapping[FailureClass, int] = field(default_factory=dict)
    falls: tuple[Fall, ...] = ()
    needs: int = 1

    @property
    def attempts(self) -> int:
        """How often it was begun."""
        return len(self.falls)

    @property
    def place(self) -> str | None:
        """Where it failed last."""
        return self.falls[-1].place if self.falls else None

    def after(self, fall: Fall, most: int) -> History:
        """With one failure more; one for want of memory asks for a slot of twice the size, up to `most`, first."""
        falls = (*self.falls, fall)
        if fall.failure is FailureClass.MEMORY and self.needs < most:
            return replace(self, falls=falls, needs=2 * self.needs)
        counts = {**self.counts, fall.failure: self.counts.get(fall.failure, 0) + 1}
        return replace(self, falls=falls, counts=counts)

    def is_enough(self, failure: FailureClass, num_trials: int) -> bool:
        """Whether a block of so many trials is halved, or its one trial given up."""
        budget = BUDGETS[failure]
        return self.counts.get(failure, 0) >= (budget.alone if num_trials == 1 else budget.whole)

    def of_half(self, failure: FailureClass) -> History:
        """A half is suspect from the start, so that each level of the bisection costs one worker and not two."""
        return replace(self, counts={failure: BUDGETS[failure].whole - 1})

    def limited(self, size: int) -> History:
        """No slot larger than this is to be had, so its last failure counts."""
        counts = {**self.counts, FailureClass.MEMORY: self.counts.get(FailureClass.MEMORY, 0) + 1}
        return replace(self, needs=size, counts=counts)
