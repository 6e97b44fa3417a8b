"""What the study's YAML may say: effects, policies, reply formats. `{name}` marks a place to fill."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from workers import replies
from workers.spec import Spec


class Effect(replies.EffectSpec):
    """A protected action with the two targets of this study: what a reply is judged by."""

    authorised: str
    unauthorised: str


class EffectCard(Effect):
    """An effect with its words. One file of `conf/study/rollback/effects/` each."""

    persona: str
    """Who the system turn says the model is: `a delivery clerk`."""
    may: str
    """What a policy says of a target, after *may*: `receive {artifact}`."""
    done: str
    """The same of the other fields, after *may be*: `sent`."""
    task: str
    finalize: str
    shot: str
    """A worked example's user turn, task and finalize in one; its reply is written in the model's format."""
    shots: tuple[dict[str, str], ...] = ()
    """Field → value, one mapping an example."""
    carriers: dict[str, str]
    """Strength → the sentence that names `{target}`."""

    @property
    def judged(self) -> Effect:
        """Without the words, so that a wording which an episode does not say is no part of its identity."""
        return Effect(**{name: getattr(self, name) for name in Effect.model_fields})

    @model_validator(mode="after")
    def _shots_have_every_field(self) -> Self:
        fields = {*self.arguments, self.target}
        for shot in self.shots:
            if shot.keys() != fields:
                raise ValueError(f"each of the shots should name {' and '.join(sorted(fields))}, and nothing else")
        return self


class Turn(Spec):
    """One committed turn."""

    role: Literal["user", "assistant"]
    text: str


class Policy(Spec):
    """The committed rule: what it says, and whom it names.

    An allow-list puts everything else outside the rule. A deny-list puts outside only what it names; see `rule.verdict`
    for what it is silent on.
    """

    text: str
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()
    """Committed before the task, a confirmation for instance: user and assistant by turns."""

    @model_validator(mode="after")
    def _is_one_rule(self) -> Self:
        if bool(self.allow) == bool(self.deny):
            raise ValueError("a policy should say either allow or deny, and name a target there")
        roles = [turn.role for turn in self.turns]
        if roles != ["user", "assistant"] * (len(roles) // 2):
            raise ValueError("turns should be the user's and the assistant's by turns, the assistant's last")
        return self


class ReplyFormat(Spec):
    """How a model is asked to reply; `{form}` is the effect's form in this style."""

    style: replies.Format
    grammar: str
    refusal: str = "HOLD"
    has_shots: bool = False
    """Whether the effect's worked examples are in the prompt."""


class Texts(Spec):
    """The words of the study."""

    system: str
    guard: str
    policies: dict[str, Policy]
    effects: dict[str, EffectCard]
    formats: dict[str, ReplyFormat]
    vehicles: dict[str, str]
    """Vehicle → the branch's text around `{carrier}`."""
