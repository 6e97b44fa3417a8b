"""Committed prefix, branch and delta of an episode, by token id: the common suffix of full renders (DESIGN §4.5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workers.episode import Episode, Message
from workers.errors import IsolationError, TemplateError
from workers.mend import mend
from workers.overwrite import overwrite

if TYPE_CHECKING:
    from workers.engine import Engine, Render

SENTINEL = "|~ 0 ~|"
"""A branch that ends like no task: it keeps the common suffix out of committed text."""

WITNESS = "=( 1 )="
"""A task that ends like no other: what the delta shares with its render is not committed text."""


@dataclass(frozen=True, slots=True)
class Split:
    """P0, the branch's own tokens and the delta, as ids.

    `committed_ids + delta_ids` is the render of the clean transcript, `committed_ids + branch_ids + delta_ids` of the
    one that still holds the branch.
    """

    committed_ids: tuple[int, ...]
    branch_ids: tuple[int, ...]
    delta_ids: tuple[int, ...]
    delta_text: str
    delta_identical: bool
    """Whether both renders end in the very same delta ids."""
    carrier_absent: bool
    neutral_branch_ids: tuple[int, ...] | None = None
    """The branch with the carrier's tokens overwritten by as many neutral ones; None where they cannot be told."""
    carrier_tokens: int | None = None
    """Tokens of the carrier in the branch."""
    overwrite_refusal: str = ""
    """Why they cannot be told."""

    @property
    def branched_ids(self) -> tuple[int, ...]:
        """P1: committed prefix and branch."""
        return self.committed_ids + self.branch_ids


def split(engine: Engine, episode: Episode) -> Split:
    """Cut the episode's renders into committed prefix, branch and delta.

    Raises:
        IsolationError: with the name of the check that the template breaks, and the mend.
        TemplateError: the template refuses the messages; with the mend.
    """
    try:
        return _split(engine, episode)
    except IsolationError as fault:
        if fault.check == "branch_empty":
            raise
        raise IsolationError(fault.check, f"{fault.message}; {mend(_split, engine, episode)}") from fault
    except TemplateError as refusal:
        raise TemplateError(f"{refusal}; {mend(_split, engine, episode)}") from refusal


def _split(engine: Engine, episode: Episode) -> Split:
    clean = _render(engine, episode, ())
    branched = _render(engine, episode, episode.branch)
    sentinel = _render(engine, episode, tuple(Message(turn.role, SENTINEL) for turn in episode.branch))
    if branched.ids == clean.ids:
        raise IsolationError("branch_empty", "the branch adds no token")
    size = min(common_suffix(clean.ids, branched.ids), common_suffix(clean.ids, sentinel.ids))
    if size in (0, len(clean.ids)):
        raise IsolationError("empty_split", f"the delta takes {size} of {len(clean.ids)} committed tokens")
    _check_committed(engine, episode, clean.ids, size)
    delta = clean.ids[-size:]
    delta_text = engine.text(delta)
    asked = [turn.text.strip() for turn in episode.finalize]
    # Nothing is a part of every text: a finalize without a word would pass for one that is whole.
    if not any(asked) or not all(text in delta_text for text in asked):
        raise IsolationError("finalize_cut", "the delta does not hold the whole finalize text, or there is none")
    committed, explored = clean.ids[:-size], branched.ids[:-size]
    if explored[: len(committed)] != committed:
        at = common_suffix(committed[::-1], explored[: len(committed)][::-1])
        raise IsolationError("history_rewritten", f"the branch changes committed token {at} of {len(committed)}")
    neutral = overwrite(engine, episode, branched, len(committed), len(explored))
    return Split(
        committed_ids=committed,
        branch_ids=explored[len(committed) :],
        delta_ids=delta,
        delta_text=delta_text,
        delta_identical=branched.ids[-size:] == delta,
        carrier_absent=is_absent(engine, episode.carriers, delta, delta_text),
        neutral_branch_ids=neutral.ids,
        carrier_tokens=neutral.num_tokens,
        overwrite_refusal=neutral.refusal,
    )


def _check_committed(engine: Engine, episode: Episode, clean: tuple[int, ...], size: int) -> None:
    """The last committed turn must end before the delta begins: its text may not change the delta's extent."""
    last = Message(episode.committed[-1].role, WITNESS)
    witness = _render(engine, replace(episode, committed=(*episode.committed[:-1], last)), ())
    excess = size - common_suffix(clean, witness.ids)
    if excess > 0:
        raise IsolationError("committed_swallowed", f"the delta begins {excess} tokens inside the committed text")


def common_suffix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids the two end in alike."""
    size = 0
    for a, b in zip(reversed(left), reversed(right), strict=False):
        if a != b:
            break
        size += 1
    return size


def is_absent(engine: Engine, carriers: Sequence[str], ids: Sequence[int], text: str) -> bool:
    """Whether no carrier occurs in the ids, as a string or as ids in any of its segmentations."""
    return not any(
        carrier in text or any(_contains(ids, form) for form in engine.segmentations(carrier)) for carrier in carriers
    )


def _contains(ids: Sequence[int], part: Sequence[int]) -> bool:
    width = len(part)
    return width > 0 and any(tuple(ids[i : i + width]) == tuple(part) for i in range(len(ids) - width + 1))


def _render(engine: Engine, episode: Episode, branch: tuple[Message, ...]) -> Render:
    messages = (*episode.committed, *branch, *episode.finalize)
    render = engine.render(messages)
    texts = [turn.text.strip() for turn in messages]
    for index, text in enumerate(texts):
        # A text may stand inside another message's, too, and would survive there.
        if text and _count(text, render.text) < sum(other.count(text) for other in texts):
            role = messages[index].role
            raise IsolationError("message_dropped", f"the template drops or rewrites message {index} (role {role})")
    if render.is_dated:
        raise IsolationError("clock_in_template", "the chat template prints the time")
    bos = engine.facts.bos_id
    if bos is not None and _contains(render.ids, (bos, bos)):
        raise IsolationError("double_bos", "the render begins a sequence twice in a row")
    return render


def _count(text: str, render: str) -> int:
    """How often `text` stands in a render: plain, or inside a JSON string, as some templates write a tool's return."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return render.count(text) + (render.count(escaped) if escaped != text else 0)
