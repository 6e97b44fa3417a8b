"""How many tokens a plan has to process, about: planning loads no tokenizer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from orchestrator.cells import Cells
from orchestrator.ids import Ints
from workers import arms
from workers.episode import Episode, Message
from workers.spec import Decode, ModelSpec
from workers.split import Split
from workers.turns import arranged

CHARACTERS_A_TOKEN = 4.0
"""Of English prose; names with hyphens and JSON take more tokens, other scripts many more."""
TOKENS_A_MESSAGE = 6
"""What a chat template puts around a message: its role, and where it begins and ends."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of some trials, each counted as if it ran alone.

    Attributes:
        prefill: about; what the rows will say as `prefill_tokens`.
        decode: at most; replies end earlier.
    """

    prefill: int = 0
    decode: int = 0


class Estimate:
    """What the cells of a grid take; the texts of an episode are read once, however often one asks.

    Args:
        models: name → the model, for what its template is given.
    """

    def __init__(self, cells: Cells, models: Mapping[str, ModelSpec]) -> None:
        self._rows, self._models = cells.rows, models
        self._splits: dict[tuple[int, ...], tuple[int, Split]] = {}
        self._size = np.full(len(cells.rows.episodes.model), -1, dtype=np.int64)
        """Of each episode which of the splits is as long as its own; -1 before it was read."""

    def of(self, num_trials: Ints) -> Tokens:
        """Tokens that so many trials of each cell process."""
        rows, asked = self._rows, np.flatnonzero(num_trials)
        self._read(rows.episode[asked])
        kinds = self._size[rows.episode[asked]] * len(rows.treatments) + rows.treatment[asked]
        kinds, place = np.unique(kinds, return_inverse=True)
        counts = np.bincount(place, weights=num_trials[asked]).astype(np.int64)
        splits = [split for _, split in self._splits.values()]
        prefill = decode = 0
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            treatment = rows.treatments[kind % len(rows.treatments)]
            prefill += count * prefill_tokens(treatment.arm, splits[kind // len(rows.treatments)])
            decode += count * Decode.model_validate_json(treatment.decode).max_new_tokens
        return Tokens(prefill, decode)

    def _read(self, asked: Ints) -> None:
        episodes = self._rows.episodes
        for at in np.unique(asked[self._size[asked] < 0]).tolist():
            model = self._models[episodes.models[episodes.model[at]]]
            split = expected_split(episodes.made(at), model)
            sizes = (len(split.committed_ids), len(split.branch_ids), len(split.delta_ids))
            self._size[at], _ = self._splits.setdefault(sizes, (len(self._splits), split))


def expected_split(episode: Episode, model: ModelSpec) -> Split:
    """A stand-in for the episode's split: its ids mean nothing, their numbers are what is expected."""
    turns = episode.committed, episode.branch, episode.finalize
    clean = _num_tokens(arranged((*turns[0], *turns[2]), model))
    branched = _num_tokens(arranged((*turns[0], *turns[1], *turns[2]), model))
    delta = min(_num_tokens(turns[2]), clean - 1)
    return _stand_in(clean - delta, branched - clean, delta)


def prefill_tokens(arm: str, parts: Split) -> int:
    """Tokens of the passes that lead to the arm's decision."""
    treatment = arms.get(arm)
    if treatment.shares == "session":
        # However it is rolled back, the session had read the branch first.
        return max(len(treatment.transcript(parts)), len(parts.branched_ids))
    return len(treatment.transcript(parts)) + (len(parts.delta_ids) if treatment.is_one_pass else 0)


@cache
def _stand_in(committed: int, branch: int, delta: int) -> Split:
    sizes = (committed, branch, delta)
    committed_ids, branch_ids, delta_ids = ((0,) * size for size in sizes)
    return Split(committed_ids, branch_ids, delta_ids, "", True, True, neutral_branch_ids=branch_ids)


def _num_tokens(messages: Sequence[Message]) -> int:
    return sum(TOKENS_A_MESSAGE + round(len(turn.text) / CHARACTERS_A_TOKEN) for turn in messages)
