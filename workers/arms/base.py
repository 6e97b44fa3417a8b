"""What an arm is: one treatment of the cache before the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split

Layer1Mode = Literal["measured", "reference", "violated"]
Sharing = Literal["session", "nothing"]


class Arm(Protocol):
    """One treatment. A module of this package defines one and names its instance `ARM`.

    Attributes:
        name: as in configs and rows.
        version: raise it when the treatment changes; only this arm's cells become new.
        is_one_pass: the returned handle already holds the delta, as the tail of a single pass.
        layer1: `measured` against the reference pass before the delta is fed; `reference` for the arm that defines
            the right answer; `violated` where the transcript itself keeps the branch.
        shares: whose state it starts from, and so its class (DESIGN §4.6): a copy of the `session` that an application
            would hold, or `nothing`, which is one pass of its own. A state of another class is refused.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    is_one_pass: ClassVar[bool]
    layer1: ClassVar[Layer1Mode]
    shares: ClassVar[Sharing]

    def transcript(self, parts: Split) -> tuple[int, ...]:
        """The ids that the prepared state claims to encode, without the delta; its ledger is held to them."""

    def prepare(self, bench: Bench) -> Handle:
        """The state in which the decision starts; on storage that no other arm sees.

        Raises:
            Unsupported: the cache family cannot do it.
        """


def class_of(arm: Arm) -> str:
    """The class whose prefills the arm may share (DESIGN §4.6): the session's, or one that is the arm's alone."""
    return "session" if arm.shares == "session" else arm.name
