"""The answer of a process that never saw the branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class Cold:
    """The clean transcript in one pass, no cache reuse: reference for every other arm, and the competence gate."""

    name: ClassVar[str] = "cold"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = True
    layer1: ClassVar[Layer1Mode] = "reference"
    shares: ClassVar[Sharing] = "nothing"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """One pass over committed prefix and delta."""
        return bench.prefilled(bench.split.committed_ids + bench.split.delta_ids)


ARM = Cold()
