"""The abort that starts over."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class Fresh:
    """The committed prefix is prefilled again from committed bytes; no state of the session is used."""

    name: ClassVar[str] = "fresh"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "nothing"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """A new cache over the committed prefix."""
        return bench.reprefilled(bench.split.committed_ids)


ARM = Fresh()
