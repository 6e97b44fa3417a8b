"""What a session may hold after an abort that did not work: each leftover with its name and the tokens it would be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workers.audit.result import Finding
from workers.audit.session import Ids
from workers.split import Split

REACH = 2
"""How many tokens a crop may be off and still be named by its replies; by tokens or a cache any number is."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A state in place of the committed one.

    Attributes:
        ids: what the session holds before the delta.
        fed: what is fed on top of it, where that is not the whole delta.
    """

    finding: Finding
    ids: Ids
    detail: str
    fed: Ids | None = None


@dataclass(frozen=True)
class Leftovers:
    """All that is looked for after the abort of one session beside another.

    Attributes:
        parts: the session's own committed prefix, branch and delta.
        other: those of the session beside it.
        is_crossing: what comes from the session beside is likelier than a leftover of the session's own.
    """

    parts: Split
    other: Split
    is_crossing: bool = False

    @property
    def clean(self) -> Leftover:
        """Nothing: the committed prefix."""
        return Leftover("intact", self.parts.committed_ids, "it holds the committed prefix")

    def all(self) -> Iterator[Leftover]:
        """Every leftover whose reply is looked for, the likeliest first."""
        if not self.is_crossing:
            yield from self._own()
        yield Leftover("foreign_state", self.other.committed_ids, "it holds the prefix of another session")
        yield Leftover("foreign_state", self.other.branched_ids, "it holds the prefix and branch of another session")
        if self.is_crossing:
            yield from self._own()

    def _own(self) -> Iterator[Leftover]:
        committed, branched, delta = self.parts.committed_ids, self.parts.branched_ids, self.parts.delta_ids
        size, num_branch = len(committed), len(self.parts.branch_ids)
        yield Leftover("branch_kept", branched, "it holds the whole branch")
        for num in range(1, min(REACH, num_branch - 1) + 1):
            yield Leftover("crop_short", branched[: size + num], f"{num} of the branch's {num_branch} tokens remain")
        for num in range(1, min(REACH, size - 1) + 1):
            yield Leftover("crop_long", committed[:-num], f"{num} of the {size} committed tokens are gone")
        if num_branch < len(delta):
            rest = delta[num_branch:]
            # What `generate` feeds of a re-rendered prompt when it is handed a cache: it compares lengths, not tokens.
            yield Leftover(
                "branch_kept", branched, f"it holds the whole branch, and was fed {len(rest)} delta tokens", rest
            )

    def named(self, ids: Ids | None) -> Leftover:
        """The leftover that these ids are, or `unexplained`; None stands for a cache that no known ids build."""
        parts = self.parts
        if ids is None:
            return Leftover("unexplained", (), "its cache is none that a known prefix builds")
        if ids == parts.committed_ids:
            return self.clean
        if ids in (self.other.committed_ids, self.other.branched_ids):
            return next(left for left in self.all() if left.ids == ids and left.finding == "foreign_state")
        if ids == parts.branched_ids:
            return Leftover("branch_kept", ids, "it holds the whole branch")
        surplus = len(ids) - len(parts.committed_ids)
        if surplus > 0 and ids == parts.branched_ids[: len(ids)]:
            return Leftover("crop_short", ids, f"{surplus} of the branch's {len(parts.branch_ids)} tokens remain")
        if surplus < 0 and ids == parts.committed_ids[: len(ids)]:
            gone = f"{-surplus} of the {len(parts.committed_ids)} committed tokens are gone"
            return Leftover("crop_long", ids, gone)
        return Leftover("unexplained", ids, f"its {len(ids)} tokens are no known prefix")
