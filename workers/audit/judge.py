"""Runs → findings: what a session held and replied, against what the engine's own passes hold and reply.

A cache that a separate pass builds as well proves what a session holds. Without one, a reply that is not cold's is
named by the leftovers on which the engine gives that reply; a reply that is cold's acquits only where it would be
another one on every leftover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workers.audit.leftovers import Leftover, Leftovers
from workers.audit.oracle import Oracle
from workers.audit.result import Audit, Evidence, Finding, Verdict
from workers.audit.runs import Stage
from workers.audit.session import Factory, Ids, Look, Run
from workers.episode import Episode, Message
from workers.errors import ConfigError
from workers.split import split

if TYPE_CHECKING:
    from workers.engine import Engine

OTHER = "Count the crates in the north hall, write the sum down, and wait."
"""What the session beside is asked, in the place of the last committed turn."""


def audit(factory: Factory, engine: Engine, episodes: Iterable[Episode], *, max_new_tokens: int = 16) -> Audit:
    """Audit a class of sessions: does an aborted branch leave anything in them?

    Args:
        factory: makes a new session, such as its class; sessions share what it shares between them.
        engine: of the very model that the sessions use (`engine.around`, or `engine.load`).
        episodes: what is committed, explored and asked; `orchestrator.episodes` gives those of the rollback study.
        max_new_tokens: budget of a reply.

    Raises:
        ConfigError: there is no episode or no budget, or what should make sessions or ids does not.
        IsolationError, TemplateError: the chat template cannot render an episode faithfully.
    """
    if not callable(factory):
        raise ConfigError(f"sessions are made by calling their class, not by a {type(factory).__name__}")
    if max_new_tokens < 1:
        raise ConfigError(f"max_new_tokens={max_new_tokens}: a reply takes at least one")
    oracle = Oracle(engine, max_new_tokens)
    verdicts = tuple(_judged(factory, oracle, episode) for episode in episodes)
    if not verdicts:
        raise ConfigError("no episode to audit a session with")
    return Audit(getattr(factory, "__name__", type(factory).__name__), engine.facts.model, verdicts)


def _judged(factory: Factory, oracle: Oracle, episode: Episode) -> Verdict:
    last = Message(episode.committed[-1].role, OTHER)
    beside = replace(episode, committed=(*episode.committed[:-1], last))
    stage = Stage(factory, oracle, split(oracle.engine, episode), split(oracle.engine, beside))
    name = "/".join(str(level) for axis, level in episode.axes.items() if axis in _TELLING) or episode.digest[:8]
    return replace(_verdict(stage), episode=name)


_TELLING = ("vehicle", "strength", "kind", "word", "name")


def _verdict(stage: Stage) -> Verdict:
    oracle, parts = stage.oracle, stage.parts
    if not oracle.is_reply(stage.plain(), parts.committed_ids + parts.delta_ids):
        return Verdict("", "not_a_session", "replies", "without a branch it does not reply as a cold pass does")
    if not oracle.is_reply(stage.openly(), parts.branched_ids + parts.delta_ids):
        return Verdict(
            "", "not_a_session", "replies", "with the branch kept it does not reply as one pass over it does"
        )
    verdict = Judge(oracle, Leftovers(parts, stage.other)).verdict(stage.aborted())
    if verdict.finding not in ("intact", "undetected"):
        return verdict
    first, second = stage.beside()
    # What a session alone has been acquitted of can only have come from the one beside it.
    is_alone_intact = verdict.finding == "intact"
    beside = [
        Judge(oracle, Leftovers(*pair, is_crossing=is_alone_intact)).verdict(run)
        for pair, run in (((parts, stage.other), first), ((stage.other, parts), second))
    ]
    return _worst([verdict, *beside])


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The first that found something, else the first that could not tell, else the first."""
    for acquitted in (("intact", "undetected"), ("intact",)):
        for verdict in verdicts:
            if verdict.finding not in acquitted:
                return verdict
    return verdicts[0]


@dataclass(frozen=True)
class Judge:
    """Judges runs of one episode."""

    oracle: Oracle
    leftovers: Leftovers

    def verdict(self, run: Run) -> Verdict:
        """The finding on one session."""
        parts = self.leftovers.parts
        evidence: Evidence = "cache" if run.aborted.is_shown else "tokens" if run.aborted.is_known else "replies"
        held = self.leftovers.named(run.aborted.ids) if run.aborted.is_known else None
        if not self.oracle.is_reply(run.reply, parts.committed_ids + parts.delta_ids):
            return self._misreplied(run, held, evidence)
        if held is not None and held.finding != "intact" and not self._restores_before_deciding(run):
            return self._held(run, held, evidence)
        return self._as_cold(run, evidence)

    def _misreplied(self, run: Run, held: Leftover | None, evidence: Evidence) -> Verdict:
        """Another reply than cold's: named by the state, or else by what the engine replies on each leftover."""
        suspects = [left for left in self.leftovers.all() if self._replies(run.reply, left)]
        if held is not None and held.finding not in ("intact", "unexplained"):
            suspects = [held]
        elif held is not None and held.finding == "intact" and not suspects:
            return self._off_the_delta(run, evidence)
        elif held is not None and held.finding == "intact":
            doubted = f"{suspects[0].detail}; its {evidence} say that it holds the committed prefix"
            suspects, evidence = [replace(suspects[0], detail=doubted), *suspects[1:]], "replies"
        elif suspects:
            evidence = "replies"
        if not suspects:
            detail = held.detail if held is not None else "its reply is none that a known leftover explains"
            return Verdict("", "unexplained", evidence, detail, ("unexplained",))
        if self._is_late(run, suspects):
            detail = f"at its first decision {suspects[0].detail}, at the second not"
            return Verdict("", "restored_late", evidence, detail, ("restored_late",))
        return _convicted(suspects, evidence)

    def _off_the_delta(self, run: Run, evidence: Evidence) -> Verdict:
        fed = self._fed(run.decided)
        if evidence == "cache" or (fed is not None and fed != self.leftovers.parts.delta_ids):
            detail = "it held the committed prefix, and did not decide on the delta"
            return Verdict("", "delta_differs", evidence, detail, ("delta_differs",))
        detail = "its tokens say that all is well, and no known leftover explains its reply"
        return Verdict("", "unexplained", "replies", detail, ("unexplained",))

    def _held(self, run: Run, held: Leftover, evidence: Evidence) -> Verdict:
        """Cold's reply on a state that is not the committed one."""
        if self._is_clean(run.decided):
            detail = f"until it decides {held.detail}; whether that is too late its reply does not show"
            return Verdict("", "undetected", evidence, detail)
        return _convicted([held], evidence)

    def _as_cold(self, run: Run, evidence: Evidence) -> Verdict:
        """Cold's reply, and nothing that speaks against it."""
        if run.aborted.is_shown and run.aborted.shown == self.leftovers.parts.committed_ids:
            return Verdict("", "intact", "cache", "its cache is that of a pass over the committed prefix")
        is_crossing = self.leftovers.is_crossing
        asked = [left for left in self.leftovers.all() if not is_crossing or left.finding == "foreign_state"]
        hidden = list(dict.fromkeys(left.finding for left in asked if self._replies(run.reply, left)))
        if not hidden:
            return Verdict("", "intact", "replies", "it replies as cold does, and no known leftover would")
        if not run.aborted.is_shown or not self._is_clean(run.decided):
            said = "its own word is all that speaks for it, and" if evidence == "tokens" else "it shows no cache, and"
            return Verdict("", "undetected", evidence, f"{said} its reply would be the same with {', '.join(hidden)}")
        return Verdict("", "intact", "cache", "it restores when it decides, and its cache is then the committed one")

    def _restores_before_deciding(self, run: Run) -> bool:
        """The session put off its restore, and the reply shows that it was done in time."""
        return self._is_clean(run.decided) and not any(
            self._replies(run.reply, left) for left in self.leftovers.all() if left.finding == "branch_kept"
        )

    def _replies(self, reply: Ids, left: Leftover) -> bool:
        fed = self.leftovers.parts.delta_ids if left.fed is None else left.fed
        return self.oracle.is_reply(reply, left.ids + fed)

    def _is_clean(self, look: Look) -> bool:
        """Whether what it holds after its decision begins as the clean transcript does, or is the committed prefix."""
        committed, ids = self.leftovers.parts.committed_ids, look.ids
        if ids is None or ids[: len(committed)] != committed:
            return False
        fed, delta = ids[len(committed) :], self.leftovers.parts.delta_ids
        return fed[: len(delta)] == delta[: len(fed)]

    def _fed(self, look: Look) -> Ids | None:
        """What it says that it was fed at the decision."""
        committed, ids = self.leftovers.parts.committed_ids, look.ids
        if ids is None or ids[: len(committed)] != committed:
            return None
        return ids[len(committed) :][: len(self.leftovers.parts.delta_ids)]

    def _is_late(self, run: Run, suspects: Sequence[Leftover]) -> bool:
        """Whether the second decision is clean although the first was not."""
        if any(left.finding == "foreign_state" for left in suspects[:1]):
            return False
        if run.decided.shown is not None:
            return self._is_clean(run.decided)
        if run.again is None:
            return False
        clean, stale = (
            any(self.oracle.is_reply(run.again, ids) for left in states for ids in self._seconds(left, run.reply))
            for states in ([self.leftovers.clean], suspects)
        )
        return clean and not stale

    def _seconds(self, left: Leftover, reply: Ids) -> list[Ids]:
        """All that the second decision may stand on: the first forgotten, or kept with what was fed of its reply."""
        delta = self.leftovers.parts.delta_ids
        return [left.ids + delta, *(left.ids + delta + kept + delta for kept in (reply, reply[:-1]))]


def _convicted(suspects: Sequence[Leftover], evidence: Evidence) -> Verdict:
    explanations: tuple[Finding, ...] = tuple(dict.fromkeys(left.finding for left in suspects))
    detail = suspects[0].detail
    if len(explanations) > 1:
        detail += f"; {' or '.join(explanations[1:])} would reply alike"
    return Verdict("", explanations[0], evidence, detail, explanations)
