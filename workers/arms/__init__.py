"""The arms, one file each. A module here that defines `ARM` is an arm; nothing else registers it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from workers.arms.base import Arm
from workers.errors import ConfigError, nearest

__all__ = ["Arm", "get", "names"]


@cache
def _registry() -> dict[str, Arm]:
    arms: dict[str, Arm] = {}
    for module in pkgutil.iter_modules(__path__):
        arm = getattr(importlib.import_module(f"{__name__}.{module.name}"), "ARM", None)
        if arm is None:
            continue
        if arm.name in arms:
            raise ConfigError(f"two files in workers/arms define the arm {arm.name!r}")
        arms[arm.name] = arm
    return arms


def names() -> tuple[str, ...]:
    """Every arm that exists."""
    return tuple(sorted(_registry()))


def get(name: str) -> Arm:
    """The arm of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in _registry():
        raise ConfigError(f"unknown arm {name!r}{nearest(name, names())}")
    return _registry()[name]
