"""The branch with its carrier made neutral, token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from workers.errors import Unsupported

if TYPE_CHECKING:
    from workers.arms.base import Layer1Mode, Sharing
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split


class PositionControl:
    """The session explored a branch of the same length in which only the carrier's tokens are other ones.

    Every token keeps its position, so what goes away with the carrier is the carrier's doing and not the length's.
    """

    name: ClassVar[str] = "position_control"
    version: ClassVar[int] = 1
    is_one_pass: ClassVar[bool] = False
    layer1: ClassVar[Layer1Mode] = "measured"
    shares: ClassVar[Sharing] = "session"

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The transcript that holds the neutral branch."""
        return parts.committed_ids + _neutral(parts)

    def prepare(self, bench: Bench) -> Handle:
        """The cache as that branch left it."""
        return bench.explored(_neutral(bench.split))


def _neutral(parts: Split) -> tuple[int, ...]:
    """The branch's ids, the carrier's overwritten.

    Raises:
        Unsupported: the carrier's tokens cannot be told.
    """
    if parts.neutral_branch_ids is None:
        raise Unsupported(f"no position control: {parts.overwrite_refusal}")
    return parts.neutral_branch_ids


ARM = PositionControl()
