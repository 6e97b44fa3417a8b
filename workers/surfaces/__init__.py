"""The surfaces, one file each. A module here that defines `SURFACE` is a surface; nothing else registers it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from workers.errors import ConfigError, nearest
from workers.surfaces.base import Aborted, Held, Restore, Script, Session, Step, Surface, stamp

__all__ = ["Aborted", "Held", "Restore", "Script", "Session", "Step", "Surface", "get", "names", "stamp"]


@cache
def _registry() -> dict[str, Surface]:
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return {module.SURFACE.name: module.SURFACE for module in modules if hasattr(module, "SURFACE")}


def names() -> tuple[str, ...]:
    """Every surface that exists."""
    return tuple(sorted(_registry()))


def get(name: str) -> Surface:
    """The surface of that name, or of that stamp (`session_app/1`).

    Raises:
        ConfigError: there is none.
    """
    known, _, _ = name.partition("/")
    if known not in _registry():
        raise ConfigError(f"unknown surface {known!r}{nearest(known, names())}")
    return _registry()[known]
