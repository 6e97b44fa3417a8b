"""The trials of a grid as token ids, and how many of their tokens are asked and unique in each class. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from workers import arms
from workers.arms import Arm
from workers.split import Split

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """One episode as the loop needs it.

    Attributes:
        neutral: the branch of the position control; None where there is none.
        texts: the forced choice, each text's ids.
    """

    episode_id: str
    committed: Ids
    branch: Ids
    delta: Ids
    neutral: Ids | None
    texts: tuple[Ids, ...]

    def can(self, arm: str) -> bool:
        """Whether that arm exists here."""
        return arm != "position_control" or self.neutral is not None


def situation(episode_id: str, parts: Split, texts: Iterable[Ids]) -> Situation:
    """From the product's own split: the same ids on both sides."""
    neutral = parts.neutral_branch_ids
    return Situation(episode_id, parts.committed_ids, parts.branch_ids, parts.delta_ids, neutral, tuple(texts))


@dataclass(frozen=True, slots=True)
class Sharing:
    """Tokens of one class.

    Attributes:
        num_asked: prefilled by one who computes every trial alone.
        num_unique: nodes of the class's token trie.
    """

    num_asked: int
    num_unique: int


REFERENCE = "layer-1 reference"


def sharing(found: Iterable[tuple[Situation, Iterable[str]]]) -> dict[str, Sharing]:
    """Class → its tokens, over (situation, arms); the reference pass that the audit adds is a class of its own."""
    chains: dict[str, list[Ids]] = {}
    num_asked: Counter[str] = Counter()
    for one, names in found:
        for arm in (arms.get(name) for name in names if one.can(name)):
            chains.setdefault(_class(arm), []).extend(_contexts(arm, one))
            num_asked[_class(arm)] += max(map(len, _contexts(arm, one)))
        chains.setdefault(REFERENCE, []).append(one.committed)
        num_asked[REFERENCE] += len(one.committed)
    return {name: Sharing(num_asked[name], num_unique(asked)) for name, asked in chains.items()}


def num_unique(chains: Iterable[Ids]) -> int:
    """Nodes of the trie of these sequences: each distinct prefix once."""
    total, before = 0, Ids()
    for chain in sorted(set(chains)):
        total += len(chain) - _num_shared(before, chain)
        before = chain
    return total


def _num_shared(one: Ids, other: Ids) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _class(arm: Arm) -> str:
    return "session" if arm.shares == "session" else arm.name


def _contexts(arm: Arm, one: Situation) -> list[Ids]:
    """The context that the arm decides on and, where the session explored the branch and gave it up, that one too."""
    parts = Split(one.committed, one.branch, one.delta, "", True, True, neutral_branch_ids=one.neutral)
    kept = arm.transcript(parts)
    gave_up = [parts.branched_ids + one.delta] if arm.shares == "session" and kept == one.committed else []
    return [kept + one.delta, *gave_up]
