"""The rows of one batch at work: states come in, replies are stepped, and rows leave as they finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workers.engine.base import Ask, Decoded
from workers.engine.batch import Batch, KeysAndValues
from workers.engine.choice import Choice
from workers.engine.passes import known
from workers.engine.pool.choosing import Chosen, choose, is_over, read
from workers.engine.pool.feeding import feed_waiting, score_texts
from workers.engine.pool.state import State
from workers.errors import OutOfMemory

AGAIN = "margin"
"""Why a reply is decoded once more: two logits lay closer than the batch's noise could tell apart."""


@dataclass(slots=True)
class Seat:
    """What one row is there for; it has no choice until what waits is fed."""

    state: State
    at: int = -1
    choice: Choice | None = None
    draft: Chosen | None = None
    """The beginning of a greedy reply, which was read while texts were scored in this row."""

    @property
    def ask(self) -> Ask:
        """What is decoded."""
        return self.state.asks[self.at]

    @property
    def chosen(self) -> Choice:
        """What was chosen so far."""
        assert self.choice is not None
        return self.choice


@dataclass
class Lane:
    """One batch and its rows' replies.

    Args:
        noise: how far a logit in the batch lies from the one computed alone, at most.
        sync_every: steps between two looks at what was chosen.
        decoded: makes a reply of what was chosen.
        redone: decodes an ask of a state alone, from the keys and values that were admitted.
    """

    batch: Batch
    noise: float
    sync_every: int
    eos_ids: frozenset[int]
    decoded: Callable[[Choice], Decoded]
    redone: Callable[[State, list[KeysAndValues], Ask], Decoded]
    seats: list[Seat] = field(default_factory=list)
    num_replies: int = 0
    num_again: int = 0
    _last: Tensor | None = None

    @property
    def shape(self) -> str:
        """Rows × slots."""
        return f"{self.batch.num_rows}x{self.batch.num_slots}"

    @property
    def is_full(self) -> bool:
        """Whether no row is free."""
        return not self.batch.num_free

    def put(self, state: State, layers: Sequence[KeysAndValues]) -> None:
        """Copy a state into the next row."""
        self.batch.put(layers, state.hidden)
        self.seats.append(Seat(state))

    @torch.inference_mode()
    def work(self, num_free: int) -> None:
        """Step the rows until so many are free, the rows of asks that had none yet included."""
        self._begin()
        while self.seats and self.batch.num_free < num_free:
            self._share()
            self._step()

    def _begin(self) -> None:
        """Feed what waits, score the texts, and choose the first tokens."""
        new = [row for row, seat in enumerate(self.seats) if seat.choice is None]
        feed_waiting(self.batch, [(row, self.seats[row].state) for row in new])
        self._fail([row for row in new if _is_nan(self.seats[row].state.logits)])
        sound = [row for row in new if self.seats[row].state.fault is None]
        drafts = score_texts(self.batch, [(row, self.seats[row].state) for row in sound])
        self._fail([row for row in sound if _has_nan(self.seats[row].state.scores)])
        for row, draft in drafts.items():
            self.seats[row].draft = draft
        self._start(new)

    def _share(self) -> None:
        """Give asks that have no row yet copies of their state's row, as far as there is room."""
        new = []
        for row, seat in enumerate(list(self.seats)):
            for _ in range(min(len(seat.state.left), self.batch.num_free)):
                new.append(self.batch.copy(row, seat.state.num_tokens))
                self.seats.append(Seat(seat.state, seat.state.left.pop()))
        self._start(new)

    def _start(self, rows: Sequence[int]) -> None:
        """Choose first tokens in these rows; a reply that is over at once makes room for its state's next."""
        gone = []
        while rows:
            ready = [row for row in rows if self._is_seated(row)]
            gone += [row for row in rows if row not in ready]
            rows = self._first(ready) if ready else []
        self._leave(gone)

    def _is_seated(self, row: int) -> bool:
        """Whether the row has an ask to begin; its state's next one, where it has none of its own."""
        seat = self.seats[row]
        if seat.at < 0 and seat.state.left:
            seat.at = seat.state.left.pop()
        if seat.at < 0 or seat.state.fault is not None:
            return False
        seat.choice = Choice(seat.ask.stream, self.eos_ids)
        self.batch.shorten(row, seat.state.num_tokens)
        return True

    def _first(self, rows: Sequence[int]) -> list[int]:
        """Choose the first tokens, or take what is known already; the rows whose reply is over."""
        drafted = [row for row in rows if self._is_drafted(row)]
        over = [row for row in drafted if self._take_draft(row)]
        return over + self._choose_first([row for row in rows if row not in drafted])

    def _is_drafted(self, row: int) -> bool:
        seat = self.seats[row]
        return seat.draft is not None and seat.chosen.stream is None

    def _take_draft(self, row: int) -> bool:
        """Take the reply's known beginning, whose ids but the last are in the row; whether the reply is over."""
        seat, chosen = self.seats[row], self.seats[row].chosen
        assert seat.draft is not None
        steps = [Chosen(*(side[at : at + 1] for side in seat.draft)) for at in range(len(seat.draft.tokens))]
        seat.draft = None
        if self._read([row], steps):
            return True
        self.batch.lengthen(row, seat.state.num_tokens + len(chosen.tokens) - 1)
        self._tokens(self.batch.model.device)[row] = chosen.tokens[-1]
        return False

    def _choose_first(self, rows: Sequence[int]) -> list[int]:
        if not rows:
            return []
        for row in rows:
            # What another reply is fed stands in the place of the ids that the draft needs.
            self.seats[row].draft = None
        predicted = torch.stack([known(self.seats[row].state) for row in rows])
        chosen = choose(predicted, [self.seats[row].chosen for row in rows])
        self._tokens(predicted.device)[torch.tensor(rows, device=predicted.device)] = chosen.tokens
        return self._read(rows, [chosen])

    def _step(self) -> None:
        """Feed all rows what they chose, a few times, and look."""
        if not self.seats:
            return
        rows = range(len(self.seats))
        choices = [seat.chosen for seat in self.seats]
        left = min(seat.ask.max_new_tokens - len(seat.chosen.tokens) for seat in self.seats)
        steps: list[Chosen] = []
        last = self._tokens(self.batch.model.device)
        for ahead in range(min(self.sync_every, left)):
            logits = self.batch.feed(0, last[: len(rows), None])
            steps.append(choose(logits, choices, ahead))
            last[: len(rows)] = steps[-1].tokens
        self._start(self._read(rows, steps))

    def _read(self, rows: Sequence[int], steps: Sequence[Chosen]) -> list[int]:
        """Take note of what was chosen; the rows whose reply is over, free for another ask."""
        seats = [self.seats[row] for row in rows]
        failed = read(steps, [seat.chosen for seat in seats], [seat.ask.max_new_tokens for seat in seats])
        self._fail([rows[at] for at in failed])
        over = [row for row, seat in zip(rows, seats, strict=True) if is_over(seat.chosen, seat.ask.max_new_tokens)]
        for row in over:
            self._reply(row)
        return [*over, *(rows[at] for at in failed)]

    def _reply(self, row: int) -> None:
        """Keep the reply, or the one computed alone where the batch's noise may have decided."""
        seat = self.seats[row]
        self.num_replies += 1
        # Both of two logits may be off by the noise. Without any, equal logits are equal alone, too.
        if self.noise and min(seat.chosen.margins) <= 2 * self.noise:
            self.num_again += 1
            self._redo(row, seat)
        else:
            seat.state.replies[seat.at] = self.decoded(seat.chosen)
        seat.at = -1

    def _redo(self, row: int, seat: Seat) -> None:
        seat.state.again = AGAIN
        try:
            layers = self.batch.cut(row, 0, len(seat.state.held))
            seat.state.replies[seat.at] = self.redone(seat.state, layers, seat.ask)
        except (FloatingPointError, OutOfMemory) as fault:
            seat.state.fail(fault)

    def _fail(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.seats[row].state.fail(FloatingPointError("the model's logits are not numbers"))
            self.batch.wipe(row)

    def _leave(self, rows: Sequence[int]) -> None:
        """Give the rows' places to the last ones."""
        for row in sorted(rows, reverse=True):
            self.batch.drop(row)
            if self._last is not None:
                self._last[row] = self._last[len(self.seats) - 1]
            last = self.seats.pop()
            if row < len(self.seats):
                self.seats[row] = last

    def _tokens(self, device: torch.device) -> Tensor:
        """`[num_rows]`: each row's last token, which waits to be fed."""
        if self._last is None:
            self._last = torch.zeros(self.batch.num_rows, dtype=torch.long, device=device)
        return self._last


def _is_nan(logits: Tensor | None) -> bool:
    return logits is not None and bool(logits.isnan().any())


def _has_nan(scores: tuple[float, ...] | None) -> bool:
    return scores is not None and any(score != score for score in scores)
