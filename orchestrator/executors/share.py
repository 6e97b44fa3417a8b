"""What one slot of a model takes of a machine, where its YAML leaves the CPUs open. Pure arithmetic.

Threads of one slot share its weights and their packed copies, slots do not: so one slot gets many threads, and there
are more slots only where there are cores for more threads than one slot can use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.executors import fit
from orchestrator.executors.fit import Resources
from workers.spec import Device

MOST_THREADS = 8
"""A decode step is bound by memory long before: more threads on it only wait for each other."""


@dataclass(frozen=True, slots=True)
class Share:
    """One slot's part.

    Attributes:
        device: with its CPUs said.
        num_threads: of the library that computes.
        slots_per_node: how many of them the roomiest machine holds at once.
        why: where the numbers come from, for the run header.
    """

    device: Device
    num_threads: int
    slots_per_node: int
    why: str

    def __str__(self) -> str:
        """For the run header."""
        many = self.slots_per_node != 1
        slots = f"{self.slots_per_node} slots a machine" if many else "1 slot a machine"
        return f"{slots} × {self.num_threads} thread{'s' * (self.num_threads != 1)} ({self.why})"


def share(device: Device, machines: Iterable[Resources], most_slots: int | None = None) -> Share:
    """The slot that uses most of the machines' cores, and of those the one with most threads.

    Args:
        machines: what each has when it is empty.
        most_slots: at most so many are opened.
    """
    found = [machine for machine in machines if fit.count(machine, Resources(0.01, device.gpus))]
    if device.cpus is not None:
        cpus, why = device.cpus, f"device.cpus={device.cpus:g}"
    elif device.gpus:
        cpus, why = _beside_gpus(device.gpus, found), f"{device.gpus:g} GPU each, CPUs shared out"
    else:
        cpus, why = _widest(found, most_slots), f"{_cores(found)}, at most {MOST_THREADS} threads a slot"
    said = device.model_copy(update={"cpus": float(cpus)})
    per_node = max((fit.count(machine, Resources(cpus, device.gpus)) for machine in found), default=0)
    per_node = max(1, per_node if most_slots is None else min(per_node, most_slots))
    return Share(said, max(1, int(cpus)), per_node, why)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _widest(machines: Sequence[Resources], most_slots: int | None) -> int:
    def used(cpus: int) -> tuple[int, int]:
        slots = fit.total(machines, Resources(cpus, 0))
        return cpus * (slots if most_slots is None else min(slots, most_slots)), cpus

    return max(range(1, MOST_THREADS + 1), key=used) if machines and used(1)[0] else 1


def _beside_gpus(gpus: float, machines: Sequence[Resources]) -> int:
    """As many as every machine with such GPUs has for each of its slots."""
    each = [int(machine.cpus) // max(1, fit.count(machine, Resources(0.01, gpus))) for machine in machines]
    return max(1, min(MOST_THREADS, *each)) if each else 1


def _cores(machines: Sequence[Resources]) -> str:
    sizes = sorted({int(machine.cpus) for machine in machines if machine.cpus >= 1})
    if not sizes:
        return "no core counted"
    return f"{sizes[0]} cores" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} cores"
