"""The abort that forgets the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class Stale:
    """The branch is dropped from the transcript and its KV is kept: what the audit is about."""

    name: ClassVar[str] = "stale"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The transcript that still holds the branch."""
        return parts.branched_ids

    def prepare(self, bench: Bench) -> Handle:
        """The session's cache as the branch left it."""
        return bench.explored()


ARM = Stale()
