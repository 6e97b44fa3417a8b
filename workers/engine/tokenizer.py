"""Tokenizers out of GGUF files, converted once a machine: that takes seconds, and reading what it made does not."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from workers.engine import disk

_CONVERTERS = ("transformers", "tokenizers", "gguf")


@lru_cache(maxsize=2)
def gguf_tokenizer(path: Path, content: str) -> Any:
    """The tokenizer inside a GGUF; every random model borrows the same one.

    Args:
        path: the file.
        content: hash of all that its tokenizer depends on, so that a changed file is converted anew.
    """
    place = disk.place("tokenizers", content, *map(disk.version, _CONVERTERS))
    kept = _read(place)
    if kept is None:
        kept = _convert(path)
        _keep(kept, place)
    return kept


def _convert(path: Path) -> Any:
    return AutoTokenizer.from_pretrained(
        str(path.parent), gguf_file=path.name, local_files_only=True, trust_remote_code=False
    )


def _read(place: Path) -> Any:
    """What is kept at `place`; None where there is nothing, or where a byte of it is not what was written."""
    return _open(place) if disk.is_whole(place) else None


def _open(place: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(str(place), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        return None


def _keep(tokenizer: Any, place: Path) -> None:
    """Keep it for later starts; a folder that cannot be written, or that reads back as another tokenizer, is let be."""
    try:
        disk.keep(place, tokenizer.save_pretrained, lambda draft: _likeness(_open(draft)) == _likeness(tokenizer))
    except OSError:
        return


def _likeness(tokenizer: Any) -> tuple[Any, ...] | None:
    """All by which two tokenizers could write a text differently."""
    if tokenizer is None:
        return None
    return (
        type(tokenizer),
        tokenizer.backend_tokenizer.to_str(),
        tokenizer.chat_template,
        tokenizer.special_tokens_map,
        len(tokenizer),
    )
