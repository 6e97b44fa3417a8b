"""The engine's own passes, against which a session is held; each is made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workers.audit.session import Audited, Ids, Look, as_ids

if TYPE_CHECKING:
    from workers.engine import Decoded, Engine, Handle


class Oracle:
    """Answers what a reply would be on some tokens, and over which tokens a cache was built."""

    def __init__(self, engine: Engine, max_new_tokens: int) -> None:
        self.engine = engine
        self.max_new_tokens = max_new_tokens
        self._replies: dict[Ids, Decoded] = {}
        self._states: dict[Ids, Handle] = {}

    def reply(self, ids: Ids) -> Decoded:
        """The greedy reply after one pass over `ids`."""
        if ids not in self._replies:
            self._replies[ids] = self.engine.decode(self.engine.prefill(ids), self.max_new_tokens)
        return self._replies[ids]

    def is_reply(self, found: Ids, ids: Ids) -> bool:
        """Whether a session's reply is the one after `ids`, with or without the end of sequence."""
        known = self.reply(ids)
        return found == known.ids or (known.stop == "eos" and found[:-1] == known.ids)

    def look(self, session: Audited, contexts: Sequence[Ids]) -> Look:
        """What the session tells of its tokens, and which of the contexts its cache was built over.

        Args:
            contexts: all that it may hold by now, or hold a beginning of.
        """
        told = _asked(session, "tokens")
        cache = _asked(session, "cache")
        look = Look(told=None if told is None else as_ids(told, "tokens"))
        if cache is None or not self._reads(cache):
            return look
        return Look(look.told, is_shown=True, shown=self._built_over(cache, contexts))

    def _reads(self, cache: object) -> bool:
        if self.engine.facts.engine != "transformers":
            return False
        from workers.engine.theirs import is_readable

        return is_readable(self.engine, cache)

    def _built_over(self, cache: object, contexts: Sequence[Ids]) -> Ids | None:
        from workers.engine.theirs import distance, num_tokens

        size = num_tokens(cache)
        for ids in dict.fromkeys(ids if size is None else ids[:size] for ids in contexts):
            if ids and size in (None, len(ids)):
                gap = distance(cache, self._state(ids))
                if gap is not None and gap <= self.engine.facts.layer1_tolerance:
                    return ids
        return None

    def _state(self, ids: Ids) -> Handle:
        if ids not in self._states:
            # A few are asked for again and again within an episode; all of a grid's would fill the memory.
            while len(self._states) >= 8:
                del self._states[next(iter(self._states))]
            self._states[ids] = self.engine.prefill(ids)
        return self._states[ids]


def _asked(session: Audited, name: str) -> Any:
    """The session's answer; None where its class has no such method."""
    method = getattr(session, name, None)
    return None if method is None else method()
