"""The five runs of one episode: each on a new session, or on two that are open at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workers.audit.oracle import Oracle
from workers.audit.session import Audited, Factory, Ids, Look, Run, as_ids
from workers.split import Split


@dataclass(frozen=True)
class Stage:
    """Where sessions of one class are made to play an episode.

    Attributes:
        parts: the episode's committed prefix, branch and delta.
        other: those of a session beside it, with another committed prefix.
    """

    factory: Factory
    oracle: Oracle
    parts: Split
    other: Split

    def plain(self) -> Ids:
        """The reply of a session that never saw a branch."""
        session = self._opened(self.parts)
        return self._decide(session, self.parts)

    def openly(self) -> Ids:
        """The reply of a session that keeps its branch, as it may."""
        session = self._opened(self.parts)
        session.feed(list(self.parts.branch_ids))
        return self._decide(session, self.parts)

    def aborted(self) -> Run:
        """A session that gives its branch up and decides twice."""
        session = self._opened(self.parts)
        session.feed(list(self.parts.branch_ids))
        session.abort()
        held, reply, after = self._decided(session, self.parts)
        return Run(held, reply, after, self._decide(session, self.parts))

    def beside(self) -> tuple[Run, Run]:
        """Two sessions, each step of the one followed by the same step of the other."""
        both = [(self._opened(parts), parts) for parts in (self.parts, self.other)]
        for session, parts in both:
            session.feed(list(parts.branch_ids))
        for session, _ in both:
            session.abort()
        first, second = (Run(*self._decided(session, parts)) for session, parts in both)
        return first, second

    def _opened(self, parts: Split) -> Audited:
        session = self.factory()
        session.open(list(parts.committed_ids))
        return session

    def _decide(self, session: Audited, parts: Split) -> Ids:
        reply = session.decide(list(parts.delta_ids), self.oracle.max_new_tokens)
        return as_ids(reply, "decide")

    def _decided(self, session: Audited, parts: Split) -> tuple[Look, Ids, Look]:
        held = self.oracle.look(session, list(self._contexts(parts, ())))
        reply = self._decide(session, parts)
        return held, reply, self.oracle.look(session, list(self._contexts(parts, (parts.delta_ids, reply))))

    def _contexts(self, parts: Split, fed: Sequence[Ids]) -> Iterator[Ids]:
        """All that a session with these parts may hold once `fed` was fed, or hold a beginning of."""
        tail = tuple(token for ids in fed for token in ids)
        for own in (parts, *(other for other in (self.parts, self.other) if other is not parts)):
            for start in (own.committed_ids, own.branched_ids):
                yield start + tail
                if fed:
                    # Most sessions never feed the last token of a reply; a recurrent cache has no length to tell it by.
                    yield start + tail[:-1]
