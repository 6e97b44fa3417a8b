"""One combination of levels → one episode, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from workers import replies, surfaces
from workers.episode import Episode, Message
from workers.errors import ConfigError, nearest
from workers.gates import Gate, facts
from workers.studies.base import levels_of
from workers.studies.rollback import content, lint
from workers.studies.rollback.axes import AXES
from workers.studies.rollback.content import Said
from workers.studies.rollback.places import filled, said
from workers.studies.rollback.rule import verdict
from workers.studies.rollback.texts import EffectCard, ReplyFormat, Texts

_AXES = levels_of(AXES)
MOST_PAIRS = 4096
"""Pairs of branches remembered at once: a grid says each on every surface, and the largest says more than fit."""


class Setting(NamedTuple):
    """What effect, policy and guard decide, whatever the branch says. Episodes share it and nobody changes it."""

    values: dict[str, str]
    committed: tuple[Message, ...]
    finalize: tuple[Message, ...]
    facts: dict[str, Any]


class Pair(NamedTuple):
    """An attack's branch and its control's, which differ in the target alone, and what their content was read from."""

    branches: dict[str, Said]
    source: str


@dataclass(frozen=True, slots=True)
class Writing(Sequence[Episode]):
    """The episodes of one model, each written when it is looked at; looked at again, it is equal.

    Two writings with equal fields hold equal episodes: everything of a model that an episode depends on is a field.

    Attributes:
        model: its name, for errors.
        roles: vehicle → the role in which it enters the model's template.
        places: the levels of each episode, in the order of the axes.
    """

    model: str = field(compare=False)
    reply_format: str
    roles: Mapping[str, str]
    places: Sequence[tuple[str | bool, ...]]
    gates: tuple[Gate, ...]
    texts: Texts
    _settings: dict[tuple[Any, ...], Setting] = field(default_factory=dict, repr=False, compare=False)
    _pairs: dict[tuple[Any, ...], Pair] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Episode: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Episode]: ...
    def __getitem__(self, at: int | slice) -> Episode | Sequence[Episode]:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        return self.episode(dict(zip(_AXES, self.places[at], strict=True)))

    def episode(self, axes: dict[str, Any]) -> Episode:
        """The episode of one combination of levels.

        Raises:
            ConfigError: the texts would attack nothing, or what they ask for could not be read.
        """
        setting = self._setting(axes)
        branches, source = self._pair(axes, setting.values)
        said_here = branches[axes["kind"]]
        attacked = self.texts.effects[axes["effect_type"]].unauthorised
        return Episode(
            study="rollback",
            axes=axes,
            committed=setting.committed,
            branch=(Message(self._role(axes["vehicle"]), said_here.branch),),
            finalize=setting.finalize,
            carriers=(attacked, branches["attack"].carrier),
            carried=said_here.carrier,
            surface=surfaces.stamp(surfaces.get(axes["surface"])),
            facts={**setting.facts, "content": source} if source else setting.facts,
        )

    def _setting(self, axes: Mapping[str, Any]) -> Setting:
        key = (axes["effect_type"], axes["policy"], axes["guard"])
        if key not in self._settings:
            self._settings[key] = self._set(axes)
        return self._settings[key]

    def _set(self, axes: Mapping[str, Any]) -> Setting:
        name, where = axes["effect_type"], f"policies.{axes['policy']}"
        card, policy = self.texts.effects[name], self.texts.policies[axes["policy"]]
        values = self._values(card, axes)
        allowed = [filled(f"{where}.allow", target, values) for target in policy.allow] or [card.authorised]
        denied = [filled(f"{where}.deny", target, values) for target in policy.deny]
        _check_readable(name, card, self._style)
        _check_rule(axes["policy"], name, card, allowed, denied)
        finalize = Message("user", said(f"effects.{name}.finalize", card.finalize, values))
        known = {
            "style": self._style.style,
            "refusal": self._style.refusal,
            "effect": card.judged.model_dump(mode="json"),
            "allowed": allowed,
            "denied": denied,
            "gates": facts([gate.about(card.call) for gate in self.gates]),
        }
        return Setting(values, tuple(self._committed(card, axes, values)), (finalize,), known)

    def _pair(self, axes: Mapping[str, Any], values: Mapping[str, str]) -> Pair:
        key = tuple(level for axis, level in axes.items() if axis not in ("surface", "kind"))
        if key not in self._pairs:
            if len(self._pairs) >= MOST_PAIRS:
                self._pairs.clear()
            card, write = self.texts.effects[axes["effect_type"]], content.writer(axes["content"])
            branches = {
                kind: write(self.texts, card, axes, {**values, "target": target})
                for kind, target in (("attack", card.unauthorised), ("control", card.authorised))
            }
            lint.check_pair(branches["attack"].branch, branches["control"].branch, card, axes)
            self._pairs[key] = Pair(branches, content.source(axes["content"]))
        return self._pairs[key]

    @property
    def _style(self) -> ReplyFormat:
        return self.texts.formats[self.reply_format]

    def _role(self, vehicle: str) -> str:
        if vehicle not in self.roles:
            hint = nearest(vehicle, self.roles)
            raise ConfigError(f"model {self.model}: no role for the vehicle {vehicle!r}{hint}")
        return self.roles[vehicle]

    def _values(self, card: EffectCard, axes: Mapping[str, Any]) -> dict[str, str]:
        """Place → value, for every text of the episode."""
        style, name = self._style, axes["effect_type"]
        values = {**card.arguments, "authorised": card.authorised, "unauthorised": card.unauthorised}
        values |= {"persona": card.persona, "done": card.done, "refusal": style.refusal}
        values["form"] = replies.blank(style.style, card)
        values["guard"] = said("guard", self.texts.guard, values) if axes["guard"] else ""
        values["may"] = filled(f"effects.{name}.may", card.may, values)
        values["grammar"] = filled(f"formats.{self.reply_format}.grammar", style.grammar, values)
        policy = self.texts.policies[axes["policy"]]
        values["policy"] = said(f"policies.{axes['policy']}.text", policy.text, values)
        return values

    def _committed(self, card: EffectCard, axes: Mapping[str, Any], values: dict[str, str]) -> Iterator[Message]:
        name, policy = axes["effect_type"], self.texts.policies[axes["policy"]]
        _check_system(self.texts.system, has_guard=axes["guard"])
        yield Message("system", filled("system", self.texts.system, values).strip())
        for shot in card.shots if self._style.has_shots else ():
            yield Message("user", said(f"effects.{name}.shot", card.shot, shot))
            yield Message("assistant", replies.written(self._style.style, card, shot))
        for turn in policy.turns:
            yield Message(turn.role, said(f"policies.{axes['policy']}.turns", turn.text, values))
        yield Message("user", said(f"effects.{name}.task", card.task, values))


def _check_system(text: str, *, has_guard: bool) -> None:
    """A rule or a guard that no arm is told is none, whatever the columns say."""
    for place in ("policy", *(("guard",) if has_guard else ())):
        if f"{{{place}}}" not in text:
            raise ConfigError(f"study.texts.system does not say {{{place}}}: no arm would be told of it")


def _check_readable(name: str, effect: EffectCard, style: ReplyFormat) -> None:
    """What the model would write must read back, or a violation would count as no reply."""
    for target in (effect.authorised, effect.unauthorised):
        reply = replies.write(style.style, effect, target)
        reading = replies.read(style.style, effect, style.refusal, reply, is_complete=True)
        if reading.targets != (replies.normal(target, effect.target_kind),):
            raise ConfigError(f"study.texts.effects.{name}: the reply {reply!r} does not read back as {target!r}")


def _check_rule(policy: str, name: str, effect: EffectCard, allowed: list[str], denied: list[str]) -> None:
    """The task asks for what the rule permits, and the attack for what it does not: or nothing is at stake."""
    rule = [{replies.normal(target, effect.target_kind) for target in targets} for targets in (allowed, denied)]
    for target, expected in ((effect.authorised, "authorised"), (effect.unauthorised, "violation")):
        found = verdict([replies.normal(target, effect.target_kind)], *rule)
        if found != expected:
            raise ConfigError(f"study.texts.policies.{policy}: {name} to {target!r} is {found}, not {expected}")
