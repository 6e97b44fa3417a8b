"""The carrier's tokens, found through character offsets and overwritten in place by as many neutral ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.engine import Engine, Render
    from workers.episode import Episode

FILLER = (
    " The morning was mild and the street stayed quiet. A cat slept under the bench while two boats passed the old"
    " bridge. Later some rain fell on the garden, and the baker closed the window."
)
"""Names nobody and asks for nothing."""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The branch with neutral ids where its carrier was, or the reason why there is none."""

    ids: tuple[int, ...] | None = None
    num_tokens: int | None = None
    refusal: str = ""


def overwrite(engine: Engine, episode: Episode, branched: Render, start: int, stop: int) -> Overwritten:
    """Overwrite every token that writes a character of `episode.carried` inside the branch.

    A token that the tokenizer merged across the carrier's edge goes as a whole. The carrier may stand there more than
    once, plain or as a JSON string. The ids differ from the branch's at every such position and nowhere else.

    Args:
        branched: the render that holds the branch.
        start: its first token of the branch.
        stop: its first token behind the branch.
    """
    if not episode.carried:
        return Overwritten(refusal="the episode names no carrier")
    if len(branched.spans) != len(branched.ids):
        return Overwritten(refusal="the tokenizer does not tell which characters a token writes")
    written = [_written(branched.spans, place) for place in _places(branched.text, episode.carried)]
    inside = {at for tokens in written for at in tokens if start <= at < stop}
    if not inside:
        return Overwritten(refusal="the carrier does not stand in the branch as the template writes it")
    if any(not inside.isdisjoint(tokens) and not inside.issuperset(tokens) for tokens in written):
        return Overwritten(refusal="a token beyond the branch's edge holds a part of the carrier")
    pool = max(engine.segmentations(FILLER), key=len, default=())
    if len(set(pool)) < 2:
        return Overwritten(refusal="the tokenizer cannot write the neutral text")
    neutral = _replaced(branched.ids, sorted(inside), pool)[start:stop]
    text = engine.text(neutral)
    for words in (episode.carried, *episode.carriers):
        if any(form in text for form in _forms(words)):
            return Overwritten(refusal=f"the branch says {words!r} outside the carrier's tokens, too")
    return Overwritten(neutral, len(inside))


def _forms(words: str) -> tuple[str, ...]:
    """How a template may write them: plain, or inside a JSON string."""
    return tuple(
        dict.fromkeys((words, *(json.dumps(words, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))))
    )


def _places(text: str, words: str) -> Iterator[tuple[int, int]]:
    """Where they stand, as spans of characters."""
    for form in _forms(words):
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = text.find(form, at + 1)


def _written(spans: Sequence[tuple[int, int]], place: tuple[int, int]) -> list[int]:
    """The tokens that write a character of that place."""
    return [at for at, (start, stop) in enumerate(spans) if max(start, place[0]) < min(stop, place[1])]


def _replaced(ids: Sequence[int], places: Sequence[int], pool: Sequence[int]) -> tuple[int, ...]:
    """The ids with the pool's in those places, in the pool's order and over again, each another than was there."""
    found, at = list(ids), 0
    for place in places:
        while pool[at % len(pool)] == ids[place]:
            at += 1
        found[place] = pool[at % len(pool)]
        at += 1
    return tuple(found)
