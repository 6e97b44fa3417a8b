"""Values into the places of a text; one that nothing fills is an error, for it would reach the model as it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workers import replies
from workers.errors import ConfigError, nearest


def filled(where: str, text: str, values: Mapping[str, str]) -> str:
    """`text` with `{name}` replaced, once: braces inside a value stay as they are.

    Args:
        where: the text's key below `study.texts`, for the error.

    Raises:
        ConfigError: a place has no value.
    """
    for name in re.findall(r"\{(\w+)\}", text):
        if name not in values:
            raise ConfigError(f"study.texts.{where}: unknown place {{{name}}}{nearest(name, values)}")
    return replies.fill(text, values)


def said(where: str, text: str, values: Mapping[str, str]) -> str:
    """The same, for a text that has to say something.

    Raises:
        ConfigError: nothing is left of it, or a place has no value.
    """
    found = filled(where, text, values)
    if not found.strip():
        raise ConfigError(f"study.texts.{where} is blank: it has to say something")
    return found
