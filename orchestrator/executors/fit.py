"""How many slots fit on which machines. Pure arithmetic on free CPUs and GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

EPSILON = 1e-4
"""The grain of Ray's resources: 0.1 + 0.2 GPUs must count as 0.3."""


class Resources(NamedTuple):
    """What a machine has free, or what a slot needs of one machine."""

    cpus: float
    gpus: float

    def minus(self, other: Resources) -> Resources:
        """What is left after taking `other`."""
        return Resources(self.cpus - other.cpus, self.gpus - other.gpus)

    def at_most(self, other: Resources) -> Resources:
        """The smaller of both, each for itself."""
        return Resources(min(self.cpus, other.cpus), min(self.gpus, other.gpus))


def count(machine: Resources, need: Resources) -> int:
    """Slots of `need` that fit on one machine."""
    by_cpu = _times(machine.cpus, need.cpus) if need.cpus else math.inf
    return max(0, int(min(by_cpu, _gpu_slots(machine.gpus, need.gpus))))


def total(machines: Iterable[Resources], need: Resources) -> int:
    """Slots of `need` that fit on all machines: a slot never spans two of them."""
    return sum(count(machine, need) for machine in machines)


def place(machines: Sequence[Resources], needs: Iterable[Resources]) -> list[Resources]:
    """What is left of each machine when every need has gone to the first one that holds it."""
    left = list(machines)
    for need in needs:
        at = next((i for i, machine in enumerate(left) if count(machine, need)), None)
        if at is not None:
            left[at] = left[at].minus(need)
    return left


def _gpu_slots(gpus: float, need: float) -> float:
    if not need:
        return math.inf
    if need >= 1:
        return _times(gpus, need)
    # A fraction never spans two GPUs: two of them hold 4 × 0.4, not 5.
    whole = _times(gpus, 1)
    return whole * _times(1, need) + _times(gpus - whole, need)


def _times(have: float, need: float) -> int:
    return math.floor(have / need + EPSILON)
