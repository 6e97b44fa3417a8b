"""The study as its YAML declares it: levels and texts → episodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from workers import replies, surfaces
from workers.episode import Episode
from workers.errors import ConfigError, nearest
from workers.gates import Gate, configured
from workers.spec import DecodeSpec, ModelSpec, Spec
from workers.studies.base import levels_of
from workers.studies.rollback import content, lint
from workers.studies.rollback.axes import AXES
from workers.studies.rollback.episodes import Writing
from workers.studies.rollback.texts import EffectCard, Texts


class RollbackSpec(Spec):
    """The study's levels, arms, decode settings and texts."""

    name: Literal["rollback"]
    arms: tuple[str, ...]
    decode: DecodeSpec = DecodeSpec()
    levels: dict[str, tuple[str | bool, ...]]
    texts: Texts
    gates: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    """Gate → its parameters; null leaves it out. Each is asked about every call of every reply."""

    def episodes(self, model: ModelSpec) -> Iterator[Episode]:
        """Every combination of the levels that attacks something, the last axis fastest."""
        return iter(self.writing(model))

    def writing(self, model: ModelSpec) -> Writing:
        """The same, each made when it is looked at."""
        self._check_levels()
        self._check_vehicles()
        for name in self.levels["effect_type"]:
            self._check_effect(str(name), self.texts.effects[str(name)])
        if model.reply_format not in self.texts.formats:
            hint = nearest(model.reply_format, self.texts.formats)
            raise ConfigError(f"model {model.name}: unknown reply_format {model.reply_format!r}{hint}")
        places = list(self._places())
        return Writing(model.name, model.reply_format, model.roles, places, self._gates(), self.texts)

    def _places(self) -> Iterator[tuple[str | bool, ...]]:
        names = levels_of(AXES)
        content_at, effect_at = names.index("content"), names.index("effect_type")
        effects = {str(name): self.texts.effects[str(name)] for name in self.levels["effect_type"]}
        contents = content.by_effect([str(name) for name in self.levels["content"]], effects)
        levels = {**self.levels, "content": dict.fromkeys(itertools.chain(*contents.values()))}
        for combination in itertools.product(*(levels[name] for name in names)):
            if combination[content_at] in contents[str(combination[effect_at])]:
                yield combination

    def _gates(self) -> tuple[Gate, ...]:
        return configured(self.gates, {effect.call for effect in self.texts.effects.values()})

    def _check_levels(self) -> None:
        strengths = dict.fromkeys(name for effect in self.texts.effects.values() for name in effect.carriers)
        known: dict[str, Any] = {
            "surface": surfaces.names(),
            "effect_type": self.texts.effects,
            "policy": self.texts.policies,
            "guard": (False, True),
            "content": self.levels.get("content", content.names()),  # it knows its own levels
            "vehicle": self.texts.vehicles,
            "strength": strengths,
            "kind": ("attack", "control"),
        }
        for axis in self.levels.keys() - known.keys():
            raise ConfigError(f"study.levels: unknown axis {axis!r}{nearest(axis, known)}")
        for axis, options in known.items():
            if not self.levels.get(axis):
                raise ConfigError(f"study.levels.{axis} is empty: name at least one of {', '.join(map(str, options))}")
            for level in self.levels[axis]:
                if level not in options:
                    raise ConfigError(f"study.levels.{axis}: unknown level {level!r}{nearest(level, options)}")
            if len(set(self.levels[axis])) < len(self.levels[axis]):
                raise ConfigError(f"study.levels.{axis} names a level twice")

    def _check_vehicles(self) -> None:
        for name in map(str, self.levels["vehicle"]):
            text = self.texts.vehicles[name]
            if "{carrier}" not in text:
                raise ConfigError(f"study.texts.vehicles.{name} does not say {{carrier}}: it would carry no attack")
            lint.check_vehicle(name, text)

    def _check_effect(self, name: str, effect: EffectCard) -> None:
        """A branch that does not name the unauthorised target attacks nothing, and its trials would count as safe."""
        where = f"study.texts.effects.{name}"
        for strength in map(str, self.levels["strength"]):
            text = effect.carriers.get(strength)
            if text is None:
                raise ConfigError(f"{where}.carriers lacks {strength}: each effect says every strength of the grid")
            if "{target}" not in text:
                raise ConfigError(f"{where}.carriers.{strength} does not say {{target}}: it would carry no attack")
            lint.check_carrier(f"effects.{name}.carriers.{strength}", strength, text, effect)
        targets = {field: replies.normal(getattr(effect, field), effect.target_kind) for field in _TARGETS}
        for field, target in targets.items():
            if not target:
                raise ConfigError(f"{where}.{field} is blank")
        authorised, unauthorised = targets.values()
        if authorised == unauthorised:
            raise ConfigError(f"{where}: authorised and unauthorised are read as the same target, {authorised!r}")
        if authorised in unauthorised or unauthorised in authorised:
            raise ConfigError(f"{where}: {authorised!r} and {unauthorised!r} must not be a part of each other")


_TARGETS = ("authorised", "unauthorised")
