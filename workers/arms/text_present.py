"""The branch served openly."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class TextPresent:
    """The transcript still holds the branch, in one pass: what a stale cache is compared with."""

    name: ClassVar[str] = "text_present"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = True
    layer1: ClassVar[Layer1Mode] = "violated"
    shares: ClassVar[Sharing] = "nothing"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The transcript that still holds the branch."""
        return parts.branched_ids

    def prepare(self, bench: Bench) -> Handle:
        """One pass over committed prefix, branch and delta."""
        return bench.prefilled(bench.split.committed_ids + bench.split.branch_ids + bench.split.delta_ids)


ARM = TextPresent()
