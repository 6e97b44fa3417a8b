"""What an audit found: one finding an episode, and one line for all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Finding = Literal[
    "intact",
    "branch_kept",
    "crop_short",
    "crop_long",
    "foreign_state",
    "restored_late",
    "delta_differs",
    "unexplained",
    "undetected",
    "not_a_session",
]
"""intact         the session decides and holds what one that never saw the branch does, and a leftover would have shown
branch_kept    it holds, or decides on, committed prefix and branch
crop_short     a beginning of the branch remains; only this is left of it
crop_long      the end of the committed prefix is gone with the branch
foreign_state  it holds, or decides on, what another open session holds
restored_late  the first decision is made on a leftover, the later ones are not
delta_differs  its state is the committed one, and what it decided on is not the delta
unexplained    it does not decide as cold does, or its cache is not the committed one, and no known leftover is that
undetected     nothing was found, and a leftover might not have shown: nobody is acquitted
not_a_session  without any abort it already decides otherwise than the engine: the audit cannot judge it
"""

Evidence = Literal["cache", "tokens", "replies"]
"""What the finding rests on. Tokens are the session's own word: it can convict, and never acquits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One episode.

    Attributes:
        explanations: every finding that what was seen is consistent with, `finding` the first of them.
    """

    episode: str
    finding: Finding
    evidence: Evidence
    detail: str
    explanations: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Audit:
    """All episodes."""

    subject: str
    model: str
    verdicts: tuple[Verdict, ...]

    @property
    def finding(self) -> Finding:
        """The one that explains most: every conviction if one does, then whatever kept the audit from a judgement."""
        convicted = [verdict for verdict in self.verdicts if verdict.finding not in _ACQUITTED]
        if convicted:
            named = Counter(name for verdict in convicted for name in verdict.explanations or (verdict.finding,))
            return max(named, key=lambda name: (named[name], -_ORDER.index(name)))
        found = {verdict.finding for verdict in self.verdicts}
        return next((name for name in _DOUBTS if name in found), "intact")

    @property
    def is_intact(self) -> bool:
        """Whether every episode is, by its cache or by replies that rule every known leftover out."""
        return self.finding == "intact"

    @property
    def is_broken(self) -> bool:
        """Whether a leftover was found; neither intact nor broken is what could not be told."""
        return self.finding not in _ACQUITTED

    @property
    def line(self) -> str:
        """The verdict in one line."""
        num = len(self.verdicts)
        counts = Counter(verdict.finding for verdict in self.verdicts)
        others = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if name != self.finding)
        evidence = Counter(verdict.evidence for verdict in self.verdicts if verdict.finding == self.finding)
        shown = ", ".join(f"{count} by {name}" for name, count in sorted(evidence.items()))
        where = f"{sum(evidence.values())} of {num} episodes" + (f" ({shown})" if shown else "")
        return f"{self.subject} on {self.model}: {self.finding} in {where}" + (f"; {others}" if others else "")

    def __str__(self) -> str:
        head = ("episode", "finding", "evidence", "detail")
        rows = [head, *((row.episode, row.finding, row.evidence, row.detail) for row in self.verdicts)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]) for row in rows
        ]
        return "\n".join([*lines, "", self.line])


_DOUBTS: tuple[Finding, ...] = ("not_a_session", "undetected")
_ACQUITTED: tuple[Finding, ...] = ("intact", *_DOUBTS)
_ORDER: tuple[Finding, ...] = (
    "restored_late", "branch_kept", "crop_short", "crop_long", "foreign_state", "delta_differs", "unexplained",
)  # fmt: skip
