"""The abort that restores a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class Checkpoint:
    """A deep copy of the cache, taken right after the committed prefill, replaces the session's cache."""

    name: ClassVar[str] = "checkpoint"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """The saved state."""
        return bench.snapshot()


ARM = Checkpoint()
