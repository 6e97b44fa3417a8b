"""What of a configuration may be shown to others: everything that does not look like a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_SECRET = re.compile(r"secret|passw|credential|authorization|bearer")
# Whole words: `tokenizer` and `keyboard` are none, and a number under `max_new_tokens` is no key to anything.
_KEY = re.compile(r"(token|key|pat)s?(?![a-z])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_TEXT = re.compile(r"(?<=://)[^/@\s]+(?=@)|\b(?:hf_|sk-|ghp_|github_pat_|glpat-|AKIA)[A-Za-z0-9_-]{8,}")

# A number is nobody's secret, and `decode.max_new_tokens: must be …` assigns nothing.
_ASSIGNED = re.compile(
    r"(?i)\b([\w.+-]*(?:secret|passw|credential|api_?key|access_?key|token)[\w.]*(?:=|['\"]\s*:\s*['\"]?))"
    r"(?![\d.]+\b)[^\s,;&]+"
)
_LEAST = 8
"""Characters of a secret in the environment; a shorter one would mask words that mean nothing."""


def masked(text: str) -> str:
    """A message for the terminal without tokens, what is assigned to a key like a secret's, and the environment's."""
    text = _IN_TEXT.sub("***", text)
    for key, value in os.environ.items():
        if len(value) >= _LEAST and _is_secret(key, value):
            text = text.replace(value, "***")
    return _ASSIGNED.sub(r"\1***", text)


def without_secrets(value: Any) -> Any:
    """A copy of plain data without the keys that look like secrets, and with tokens in texts masked."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not _is_secret(str(key), item)}
    if isinstance(value, list | tuple | set | frozenset):
        return [without_secrets(item) for item in value]
    return _IN_TEXT.sub("***", value) if isinstance(value, str) else value


def _is_secret(key: str, value: Any) -> bool:
    words = _HUMP.sub("_", key).lower()
    if _SECRET.search(words):
        return True
    return bool(_KEY.search(words)) and not isinstance(value, int | float | None)
