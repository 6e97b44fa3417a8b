"""The studies, one module each. A module here that defines `STUDY` is a study; nothing else registers it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from workers.errors import ConfigError, nearest
from workers.studies.base import Judge, Study, StudySpec, written

__all__ = ["Judge", "Study", "StudySpec", "get", "names", "written"]


@cache
def _registry() -> dict[str, Study]:
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return {module.STUDY.name: module.STUDY for module in modules if hasattr(module, "STUDY")}


def names() -> tuple[str, ...]:
    """Every study that exists."""
    return tuple(sorted(_registry()))


def get(name: str) -> Study:
    """The study of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in _registry():
        raise ConfigError(f"unknown study {name!r}{nearest(name, names())}")
    return _registry()[name]
