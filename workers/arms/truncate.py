"""The abort that crops the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class Truncate:
    """The session's cache is cut back to the committed length by the cache library's own crop."""

    name: ClassVar[str] = "truncate"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """The first committed tokens of the session's cache."""
        return bench.cropped(len(bench.split.committed_ids))


ARM = Truncate()
