"""What an executor must do: open slots that hold one model each, take blocks, report events. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from orchestrator.executors.share import Share
from workers.block import Block, Job, Receipt
from workers.spec import Device


class FailureClass(StrEnum):
    """Why a slot could not do what it was asked; each has its own answer in `schedule`."""

    MODEL = "model"
    """The model cannot be loaded; asking again will not help."""
    STORE = "store"
    """The records cannot be written; stop."""
    LOST = "lost"
    """The worker died; the block may be given to another."""
    PREEMPTED = "preempted"
    """The worker's machine went away, or cannot be reached."""
    MEMORY = "memory"
    """The slot is too small for what was asked, one state at a time."""
    HUNG = "hung"
    """Nothing was heard of the worker for longer than is allowed."""
    UNPLACED = "unplaced"
    """No machine took the slot, because what was free has gone meanwhile; nothing is wrong with it."""
    BUG = "bug"
    """An exception of ours, or of a device; the message carries the traceback's last line."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The slot has loaded its model. `place`: the machine and the GPUs, such that two slots of one place share both."""

    slot: int
    device: str
    load_s: float
    place: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The slot has committed a block."""

    slot: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Failed:
    """The slot is gone, with the blocks it had taken (the first one was being worked on)."""

    slot: int
    failure: FailureClass
    message: str
    blocks: tuple[Block, ...]
    traceback: str = ""


Event = Ready | Done | Failed


class Executor(Protocol):
    """Slots on some machines. One thread calls it."""

    @property
    def description(self) -> str:
        """For the run header: where the slots are and how many fit."""

    def share(self, device: Device) -> Share:
        """What one slot of a model that asks for `device` takes, and how many of them a machine holds."""

    def room(self, job: Job) -> int:
        """How many more slots for the job's model would fit now, beside those open. Never more than is free."""

    def capacity(self, job: Job) -> int:
        """How many slots for the model would fit if nothing were running; 0 means it can never run here."""

    def open(self, job: Job) -> int:
        """Start a slot that loads the job's model; its number. `Ready` or `Failed` follows."""

    def submit(self, slot: int, block: Block) -> None:
        """Queue a block on a slot, which may still be loading. `Done` or `Failed` follows."""

    def wait(self, timeout_s: float) -> list[Event]:
        """What has happened; empty after `timeout_s` without an event."""

    def close(self, slot: int) -> None:
        """Let a slot go, and free what it took; blocks that it still holds are dropped, the running one undone.

        No event of it follows.
        """

    def shutdown(self) -> None:
        """Let every slot go, at once. Doing it twice is doing it once."""
