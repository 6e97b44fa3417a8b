"""What rows are fed before their first step: what waits, and the texts that are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from workers.engine.batch import Batch
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


def score_texts(batch: Batch, rows: Rows) -> None:
    """Log-probability (nats) of each state's texts as the continuation; what they share is fed once."""
    rows = [row for row in rows if row[1].texts]
    for group in _groups(rows, batch, _fed_at_once):
        sums = _shared_sums(batch, group)
        for at in range(max(len(state.texts) for _, state in group)):
            _add_rest(batch, [row for row in group if at < len(row[1].texts)], at, sums)
        for row, state in group:
            batch.shorten(row, state.num_tokens)
            state.scores = tuple(torch.stack(sums[row]).tolist())


def _shared_sums(batch: Batch, group: Rows) -> dict[int, list[Tensor]]:
    """By row, for each text: what its ids give up to the first one that not all texts of the state have."""
    shared = {row: _shared(state.texts) for row, state in group}
    logits = _fed(batch, {row: ids for row, ids in shared.items() if ids})
    sums = {}
    for row, state in group:
        assert state.logits is not None
        rows = torch.cat([state.logits[None], *([logits[row]] if row in logits else [])])
        sums[row] = [_sum(rows, text[: len(rows)]) for text in state.texts]
    return sums


def _add_rest(batch: Batch, group: Rows, at: int, sums: dict[int, list[Tensor]]) -> None:
    """Add what one text of each state gives behind what its texts share, and forget what was fed for it."""
    rests = {row: (len(_shared(state.texts)), state.texts[at]) for row, state in group}
    logits = _fed(batch, {row: text[size:-1] for row, (size, text) in rests.items() if len(text) > size + 1})
    for row, state in group:
        if row in logits:
            size, text = rests[row]
            sums[row][at] = sums[row][at] + _sum(logits[row], text[size + 1 :])
            batch.shorten(row, state.num_tokens + size)


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
