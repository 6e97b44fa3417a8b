"""The pool of an engine that works on one state at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.engine.base import Answer, Ask, Decoded, Engine, Handle


@dataclass(frozen=True, slots=True)
class Known:
    """An answer that is there already, or the fault that stands in its place."""

    found: Answer | FloatingPointError

    def answer(self) -> Answer:
        """The answer.

        Raises:
            FloatingPointError: the model's logits are not numbers.
        """
        if isinstance(self.found, FloatingPointError):
            raise self.found
        return self.found


@dataclass(frozen=True, slots=True)
class Alone:
    """Decodes each state as it is admitted.

    Attributes:
        along: decodes an ask whose reply may go along a text; None where each token is to take a step of its own.
    """

    engine: Engine
    along: Callable[[Handle, Ask, str], Decoded] | None = None

    def admit(self, handle: Handle, asks: Sequence[Ask], texts: Sequence[str] = ()) -> Known:
        """Score the texts and decode the asks, on the state itself and on copies of it."""
        try:
            return Known(self._answer(handle, asks, texts))
        except FloatingPointError as fault:
            return Known(fault)

    def drain(self) -> None:
        """Nothing waits."""

    def prove(self) -> str:
        """There is no batch."""
        return ""

    def recheck(self) -> str:
        """There is no batch."""
        return ""

    def _answer(self, handle: Handle, asks: Sequence[Ask], texts: Sequence[str]) -> Answer:
        scores = tuple(self.engine.score(handle, text) for text in texts)
        # The last ask may have the state itself.
        states = [*(self.engine.fork(handle) for _ in asks[1:]), handle]
        likeliest = max(zip(scores, texts, strict=True), default=None)
        replies = [
            self._decoded(state, ask, likeliest[1] if likeliest else "")
            for state, ask in zip(states, asks, strict=False)
        ]
        return Answer(tuple(replies), scores)

    def _decoded(self, state: Handle, ask: Ask, text: str) -> Decoded:
        if self.along is None or not text or ask.stream is not None:
            return self.engine.decode(state, ask.max_new_tokens, ask.stream)
        return self.along(state, ask, text)
