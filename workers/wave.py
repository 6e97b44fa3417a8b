"""Which episodes are computed side by side, and which prefills their arms will ask for. Pure, once they are split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers import arms, surfaces
from workers.arms.base import class_of
from workers.errors import Unsupported, raise_if_full
from workers.split import Split, split

if TYPE_CHECKING:
    from workers.arms import Arm
    from workers.block import Work
    from workers.engine import Chain, Engine


@dataclass(frozen=True, slots=True)
class Laid:
    """An episode's trials with its tokens.

    Attributes:
        at: its place in the block.
    """

    at: int
    work: Work
    parts: Split

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms of its trials, each once."""
        return tuple(arms.get(name) for name in dict.fromkeys(trial.arm for trial in self.work.trials))

    def wanted(self) -> Iterator[tuple[str, Chain]]:
        """(class, chain) of every prefill that may be shared; a surface on another path than ours shares none."""
        if surfaces.get(self.work.episode.surface).path != "explicit":
            return
        for arm in self.arms:
            try:
                yield from ((class_of(arm), chain) for chain in _chains(arm, self.parts))
            except Unsupported:
                continue
        if any(arm.layer1 == "measured" for arm in self.arms):
            yield ("reference", (self.parts.committed_ids,))


def _chains(arm: Arm, parts: Split) -> list[Chain]:
    """The passes that lead to the state which the arm prepares or restores from, and those to its decision."""
    claimed, committed = arm.transcript(parts), parts.committed_ids
    if arm.is_one_pass:
        return [(claimed + parts.delta_ids,)]
    if arm.shares != "session":
        return [(claimed, parts.delta_ids)]
    branch = claimed[len(committed) :]
    # Only a branch of the same length is one that the session took; what else an arm claims, it cuts from that.
    if len(branch) == len(parts.branch_ids):
        return [(committed, branch, parts.delta_ids)]
    return [(committed, parts.branch_ids), *([] if branch else [(committed, parts.delta_ids)])]


def laid(engine: Engine, at: int, work: Work) -> Laid | Exception:
    """The work with its episode's tokens, or why none of its arms can be tried.

    Raises:
        OutOfMemory: says nothing about the episode.
    """
    try:
        parts = split(engine, work.episode)
        engine.check_span(len(parts.committed_ids), _longest(parts, work))
    except Exception as fault:
        raise_if_full(fault)
        return fault
    return Laid(at, work, parts)


def _longest(parts: Split, work: Work) -> int:
    """Tokens of the longest context that any arm may reach, with a reply that uses its whole budget."""
    budget = max(trial.decode.max_new_tokens for trial in work.trials)
    return len(parts.branched_ids) + len(parts.delta_ids) + budget


def waves(episodes: Sequence[Laid], max_tokens: float) -> Iterator[list[Laid]]:
    """Whole episodes whose prefills hold at most so many distinct tokens, or one that holds more; like beside like."""
    wave: list[Laid] = []
    last: dict[str, tuple[int, ...]] = {}
    num_tokens = 0
    for episode in sorted(episodes, key=lambda laid: (laid.parts.committed_ids, laid.parts.branch_ids)):
        num_new, ends = _added(episode, last)
        if wave and num_tokens + num_new > max_tokens:
            yield wave
            wave, num_tokens = [], 0
            num_new, ends = _added(episode, {})
        wave.append(episode)
        num_tokens, last = num_tokens + num_new, ends
    if wave:
        yield wave


def _added(episode: Laid, last: dict[str, tuple[int, ...]]) -> tuple[int, dict[str, tuple[int, ...]]]:
    """Tokens that the episode adds to a trie a class whose last chains are these, and the last chains then."""
    ends, num_new = dict(last), 0
    for name, chain in episode.wanted():
        ids = sum(chain, ())
        num_new += len(ids) - _common(ids, ends.get(name, ()))
        ends[name] = ids
    return num_new, ends


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))
