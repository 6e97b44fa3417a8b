"""The gates, one file each. A module here that defines `GATE` is a gate; nothing else registers it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError

from workers.errors import ConfigError, nearest
from workers.gates.base import Call, Capability, Gate, Scene, Verdict

__all__ = ["Call", "Capability", "Gate", "Scene", "Verdict", "configured", "facts", "from_facts", "get", "names"]


@cache
def _registry() -> dict[str, type[Gate]]:
    gates: dict[str, type[Gate]] = {}
    for module in pkgutil.iter_modules(__path__):
        gate = getattr(importlib.import_module(f"{__name__}.{module.name}"), "GATE", None)
        if gate is None:
            continue
        if not gate.name.isidentifier():
            raise ConfigError(f"workers/gates/{module.name}.py: a gate's name should be one word, got {gate.name!r}")
        if gate.name in gates:
            raise ConfigError(f"two files in workers/gates define the gate {gate.name!r}")
        gates[gate.name] = gate
    return gates


def names() -> tuple[str, ...]:
    """Every gate that exists."""
    return tuple(sorted(_registry()))


def get(name: str) -> type[Gate]:
    """The gate of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in _registry():
        raise ConfigError(f"study.gates: unknown gate {name!r}{nearest(name, names())}")
    return _registry()[name]


def configured(asked: Mapping[str, Mapping[str, Any] | None], calls: Collection[str]) -> tuple[Gate, ...]:
    """The gates of a study, by name.

    Args:
        asked: gate → its parameters, as `study.gates` says them; null leaves the gate out.
        calls: names of the calls that the study's effects make.

    Raises:
        ConfigError: a gate, a parameter or a call is unknown, missing or of the wrong type.
    """
    known = [(get(name), asked[name]) for name in sorted(asked)]
    gates = tuple(_checked(gate, parameters) for gate, parameters in known if parameters is not None)
    for gate in gates:
        gate.check_calls(calls)
    return gates


def facts(gates: Sequence[Gate]) -> dict[str, Any]:
    """The gates as a fact of the episode, and so of the cell's identity; `from_facts` reads them back."""
    return {gate.name: {"version": gate.version, "parameters": gate.model_dump(mode="json")} for gate in gates}


def from_facts(stored: Mapping[str, Any]) -> tuple[Gate, ...]:
    """The gates that a fact names, in the order of `configured`."""
    return tuple(get(name).model_validate(stored[name]["parameters"]) for name in sorted(stored))


def _checked(gate: type[Gate], parameters: Mapping[str, Any]) -> Gate:
    where = f"study.gates.{gate.name}"
    try:
        return gate.model_validate(parameters)
    except ValidationError as refusal:
        problems = refusal.errors(include_url=False, include_context=False)
        # A misspelt key also leaves its right spelling missing; the misspelling is what the user can see.
        problem = min(problems, key=lambda one: one["type"] != "extra_forbidden")
        key = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            raise ConfigError(f"unknown key {key!r} in {where}{nearest(key, gate.model_fields)}") from None
        at = f"{where}.{key}" if key else where
        if problem["type"] == "missing":
            raise ConfigError(f"{at} is missing") from None
        message = problem["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{at}: {message[0].lower()}{message[1:]}") from None
