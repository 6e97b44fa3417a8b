"""The crop that reports success."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class TruncateRecorded:
    """The session recorded its past from the start, as the library asks, so its crop is never refused.

    On recurrent layers that crop raises nothing and leaves the state as the branch left it (transformers#49036).
    """

    name: ClassVar[str] = "truncate_recorded"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript, as the library says."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """What the library calls the first committed tokens of the session's cache."""
        return bench.recorded_and_cropped(len(bench.split.committed_ids))


ARM = TruncateRecorded()
