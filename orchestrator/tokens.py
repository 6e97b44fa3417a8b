"""How many tokens a plan has to process, about: planning loads no tokenizer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from orchestrator.plan import Planned
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


def estimate(planned: Iterable[Planned], models: Mapping[str, ModelSpec]) -> Tokens:
    """Tokens that these trials process.

    Args:
        models: name → the model, for what its template is given.
    """
    prefill = decode = 0
    splits: dict[str, Split] = {}
    budgets: dict[str, int] = {}
    for entry in planned:
        cell = entry.cell
        if cell.episode_id not in splits:
            splits[cell.episode_id] = expected_split(cell.episode, models[cell.model])
        if cell.identity.decode not in budgets:
            budgets[cell.identity.decode] = Decode.model_validate_json(cell.identity.decode).max_new_tokens
        prefill += prefill_tokens(cell.arm, splits[cell.episode_id])
        decode += budgets[cell.identity.decode]
    return Tokens(prefill, decode)


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
