"""The abort that masks the branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class ProvenanceMask:
    """The session knows which positions the branch wrote, and the decision gives them no attention.

    The cache still holds the branch, so Layer 1 stays violated, whatever becomes of the harm.
    """

    name: ClassVar[str] = "provenance_mask"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The transcript that still holds the branch: masked, it is not gone."""
        return parts.branched_ids

    def prepare(self, bench: Bench) -> Handle:
        """The session's cache as the branch left it, the branch out of sight."""
        return bench.masked(len(bench.split.committed_ids), len(bench.split.branched_ids))


ARM = ProvenanceMask()
