"""Decision states on their way to a reply: taken in as they are, each distinct one once, and read when it is there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from workers import record
from workers.engine.base import ALONE, Ask
from workers.identity import digest
from workers.stream import Stream

if TYPE_CHECKING:
    from workers.arms import Arm
    from workers.bench import Bench
    from workers.block import Row, Trial
    from workers.engine import Answer, Decoded, Engine, Handle, Ticket
    from workers.episode import Episode
    from workers.split import Split
    from workers.studies import Judge


class Wanted(NamedTuple):
    """One reply that a trial asks for."""

    name: str
    """`<cell_id>/<draw>` of the trial."""
    ask: Ask


def wanted(trial: Trial, parts: Split) -> Wanted:
    """The trial's reply. Its noise is that of every arm, on every surface, that decides on the same tokens."""
    decode = trial.decode
    stream = None
    if not decode.is_greedy:
        question = digest(repr((parts.committed_ids, parts.branch_ids, parts.delta_ids)))
        stream = Stream(decode.temperature, decode.seed, question, trial.draw)
    return Wanted(f"{trial.cell_id}/{trial.draw}", Ask(decode.max_new_tokens, stream))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reply will be found.

    Attributes:
        name: the trial whose state it was decoded from.
        at: which of the ticket's replies.
        alone_ms: time of its decoding, where that was done by itself.
    """

    name: str
    ticket: Ticket
    at: int
    alone_ms: float | None


@dataclass(frozen=True, slots=True)
class Admission:
    """One trial's reply, now or once the pool is drained.

    Attributes:
        state_digest: of the state that it was asked for from.
        feed_ms: what it took to feed the delta.
    """

    place: Place
    name: str
    state_digest: str
    feed_ms: float

    @property
    def answer(self) -> Answer:
        """What was read from the state.

        Raises:
            FloatingPointError: the model's logits are not numbers.
            OutOfMemory: the device was full.
        """
        return self.place.ticket.answer()

    @property
    def decoded(self) -> Decoded:
        """The reply."""
        return self.answer.replies[self.place.at]

    @property
    def columns(self) -> Row:
        """How it was computed. A time that was spent on several states at once is no one's."""
        answer, is_own = self.answer, self.place.name == self.name
        alone_ms = self.place.alone_ms if is_own and answer.batch == ALONE else None
        return {
            "decode_ms": None if alone_ms is None else self.feed_ms + alone_ms,
            "batch": answer.batch,
            "again": answer.again,
            "decoded_with": None if is_own else self.place.name,
            "state_digest": self.state_digest,
        }


@dataclass
class Desk:
    """Where states are handed in for their replies.

    Args:
        is_batched: decode states side by side; else each as it is handed in.
        decode_once: equal states (bytes, mask and what is fed to them) that are asked the same get one reply.
        is_timed: say of a reply that was decoded by itself how long that took.
    """

    engine: Engine
    is_batched: bool = False
    decode_once: bool = False
    is_timed: bool = True
    _known: dict[tuple[str, Ask, tuple[str, ...]], Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the pool of the engine's own path."""
        self._pool = self.engine.pool(is_batched=self.is_batched, is_timed=self.is_timed)

    def admit(
        self, bench: Bench, state: Handle, asks: Sequence[Wanted], texts: tuple[str, ...], *, feed_ms: float = 0.0
    ) -> list[Admission]:
        """Take a copy of the state at this very moment, unless its replies are known or under way.

        Only our own path is shared and batched: what the framework does on its own may depend on more than the bytes.

        Args:
            texts: what is scored as the continuation.
        """
        made = bench.engine.fingerprint(state)
        is_ours = bench.surface.path == "explicit"
        places = self._known if self.decode_once and is_ours else {}
        keys = [(made, one.ask, texts) for one in asks]
        new = {key: one for key, one in reversed(list(zip(keys, asks, strict=True))) if key not in places}
        if new:
            start = time.perf_counter()
            pool = self._pool if is_ours else bench.engine.pool(is_batched=False)
            ticket = pool.admit(state, [one.ask for one in new.values()], texts)
            spent_ms = 1000 * (time.perf_counter() - start) / len(new)
            alone_ms = None if is_ours and (self.is_batched or not self.is_timed) else spent_ms
            places.update((key, Place(one.name, ticket, at, alone_ms)) for at, (key, one) in enumerate(new.items()))
        return [Admission(places[key], one.name, made, feed_ms) for key, one in zip(keys, asks, strict=True)]

    def drain(self) -> None:
        """Have every reply that was asked for."""
        self._pool.drain()


@dataclass(frozen=True, slots=True)
class Decision:
    """A trial whose reply is under way, and all that its row will say beside it."""

    arm: Arm
    episode: Episode
    parts: Split
    judge: Judge
    admission: Admission

    def finished(self, row: Row) -> Row:
        """The row with reply and verdict; of a trial with a broken check, with the reply alone."""
        decoded = self.admission.decoded
        decoded = replace(decoded, opens_in_thinking=self.parts.delta_text.rstrip().endswith("<think>"))
        found = row | record.of_reply(decoded) | self.admission.columns
        if row["status"] == "invalid":
            return found
        transcript = self.episode.transcript(with_branch=self.arm.layer1 == "violated")
        measures = dict(self.judge.scored(self.admission.answer.scores, self.episode))
        return found | measures | dict(self.judge.read(decoded, self.episode, transcript))
