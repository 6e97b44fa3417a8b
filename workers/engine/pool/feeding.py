"""What rows are fed before their first step: what waits, and the texts that are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workers.engine.batch import Batch
from workers.engine.passes import known
from workers.engine.pool.choosing import Chosen, choose
from workers.engine.pool.state import State

CPU_TOKENS, DEVICE_TOKENS = 256, 4096
"""Ids of one pass, padding included: on a CPU more of them are no faster, and take more memory."""

LEAST_QUERIES = 4
"""Ids that a row is padded to: with fewer, the kernels of a long pass are not those of a short one."""

Rows = Sequence[tuple[int, State]]


def feed_waiting(batch: Batch, rows: Rows) -> None:
    """Feed what waits, and keep each state's prediction."""
    for group in _groups([row for row in rows if row[1].queued], batch, lambda state: len(state.queued)):
        logits = batch.feed([row for row, _ in group], [state.queued for _, state in group], least=LEAST_QUERIES)
        for at, (_, state) in enumerate(group):
            state.logits = logits[at].clone()


def score_texts(batch: Batch, rows: Rows) -> dict[int, Chosen]:
    """Log-probability (nats) of each state's texts as the continuation; what they share is fed once.

    Returns:
        By row, the beginning of the greedy reply, as far as the scored texts tell it: a reply that goes along one of
        them was read while that was scored. Its ids but the last are still in the row, behind the state's own.
    """
    drafts = {}
    for group in _groups([row for row in rows if row[1].texts], batch, _fed_at_once):
        scored = [Scored.of(row, state) for row, state in group]
        logits = _fed(batch, {one.row: one.shared for one in scored if one.shared})
        for one in scored:
            one.begin(logits.get(one.row))
        for turn in range(max(len(one.state.texts) for one in scored)):
            _add_rest(batch, [one for one in scored if turn < len(one.state.texts)], turn)
        for one in scored:
            batch.shorten(one.row, one.state.num_tokens)
            one.state.scores = tuple(torch.stack([one.sums[at] for at in sorted(one.sums)]).tolist())
            drafts[one.row] = one.draft()
    return drafts


def _add_rest(batch: Batch, group: Sequence[Scored], turn: int) -> None:
    """Add what one text of each state gives behind what its texts share; it stays in the row until the next is fed."""
    for one in group:
        batch.shorten(one.row, one.state.num_tokens + len(one.shared))
    rests = {one.row: one.rest(turn)[:-1] for one in group}
    logits = _fed(batch, {row: ids for row, ids in rests.items() if ids})
    for one in group:
        one.add(turn, logits.get(one.row))


@dataclass(slots=True)
class Scored:
    """A row whose texts are being scored.

    Attributes:
        shared: ids that all texts begin with and go on from.
        order: the texts' numbers as they are fed; the one that the greedy reply goes along, if any, at last.
        sums: text's number → log-probability so far.
        logits: `[num_ids, vocab]`: after the state and each id of what was fed last but its own last one.
    """

    row: int
    state: State
    shared: tuple[int, ...]
    order: list[int] = field(default_factory=list)
    sums: dict[int, Tensor] = field(default_factory=dict)
    logits: Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def of(cls, row: int, state: State) -> Scored:
        """Nothing is fed yet."""
        return cls(row, state, _shared(state.texts))

    def begin(self, shared: Tensor | None) -> None:
        """Take the logits after each shared id, and find out which way the greedy reply goes from there."""
        texts, size = self.state.texts, len(self.shared)
        self.logits = torch.cat([known(self.state)[None], *([] if shared is None else [shared])])
        self.sums = {at: _sum(self.logits, text[: size + 1]) for at, text in enumerate(texts)}
        way = int(self.logits[-1].argmax())
        self.order = sorted(self.sums, key=lambda at: texts[at][size] == way)

    def rest(self, turn: int) -> tuple[int, ...]:
        """Ids of a text behind what all share."""
        return self.state.texts[self.order[turn]][len(self.shared) :]

    def add(self, turn: int, logits: Tensor | None) -> None:
        """Take the logits after each id of the text's rest but the last."""
        if logits is not None:
            self.sums[self.order[turn]] = self.sums[self.order[turn]] + _sum(logits, self.rest(turn)[1:])
        if turn == len(self.order) - 1 and logits is not None:
            self.logits = torch.cat([self.logits, logits])

    def draft(self) -> Chosen:
        """The greedy choices along the text that was fed last, up to the first that leaves it."""
        chosen = choose(self.logits, ())
        pairs = zip(chosen.tokens.tolist(), self.state.texts[self.order[-1]], strict=True)
        size = next((at + 1 for at, (ours, theirs) in enumerate(pairs) if ours != theirs), len(chosen.tokens))
        return Chosen(*(side[:size] for side in chosen))


def _fed(batch: Batch, ids: dict[int, tuple[int, ...]]) -> dict[int, Tensor]:
    """Logits after every id, by row."""
    if not ids:
        return {}
    logits = batch.feed(list(ids), list(ids.values()), keeps_all=True)
    return {row: logits[at, -len(new) :] for at, (row, new) in enumerate(ids.items())}


def _sum(logits: Tensor, ids: Sequence[int]) -> Tensor:
    wanted = torch.tensor(ids, device=logits.device)[:, None]
    return logits.log_softmax(-1).gather(1, wanted).sum()


def _shared(texts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Ids that every text begins with and goes on from."""
    first, last = min(texts), max(texts)
    size = min(map(len, texts)) - 1
    return first[: next((at for at in range(size) if first[at] != last[at]), size)]


def _fed_at_once(state: State) -> int:
    """Ids of the longest pass that scoring takes."""
    size = len(_shared(state.texts))
    return max(1, size, *(len(text) - 1 - size for text in state.texts))


def _groups(rows: Rows, batch: Batch, length: Callable[[State], int]) -> Iterator[list[tuple[int, State]]]:
    """Rows that one pass takes side by side, of a like length."""
    most = CPU_TOKENS if batch.model.device.type == "cpu" else DEVICE_TOKENS
    group: list[tuple[int, State]] = []
    for row in sorted(rows, key=lambda row: -length(row[1])):
        longest = length(group[0][1]) if group else 0
        is_padded = longest - length(row[1]) > max(longest // 2, 8)
        if group and ((len(group) + 1) * max(longest, LEAST_QUERIES) > most or is_padded):
            yield group
            group = []
        group.append(row)
    if group:
        yield group
