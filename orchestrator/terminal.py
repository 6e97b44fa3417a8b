"""Text that comes from outside, made harmless for a terminal."""

from __future__ import annotations

import unicodedata


def plain(text: str) -> str:
    """`text` with control and format characters (ANSI escapes, bidi marks, line breaks) shown as escapes."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char
        for char in text
    )
