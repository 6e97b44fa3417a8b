"""The branch that never touched the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class BranchScoped:
    """The branch is explored on a fork of the session's cache; the abort throws the fork away and restores nothing."""

    name: ClassVar[str] = "branch_scoped"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The clean transcript."""
        return parts.committed_ids

    def prepare(self, bench: Bench) -> Handle:
        """The session's own state, which the branch was never fed to."""
        return bench.scoped()


ARM = BranchScoped()
