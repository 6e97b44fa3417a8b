"""Tokenizers out of GGUF files, converted once a machine: that takes seconds, and reading what it made does not."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from workers.identity import digest

_SUM = "blake2b"
_CONVERTERS = ("transformers", "tokenizers", "gguf")


@lru_cache(maxsize=2)
def gguf_tokenizer(path: Path, content: str) -> Any:
    """The tokenizer inside a GGUF; every random model borrows the same one.

    Args:
        path: the file.
        content: hash of all that its tokenizer depends on, so that a changed file is converted anew.
    """
    place = _folder() / digest("\n".join((content, *map(_version, _CONVERTERS))))
    kept = _read(place)
    if kept is None:
        kept = _convert(path)
        _keep(kept, place)
    return kept


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "residue" / "tokenizers"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _convert(path: Path) -> Any:
    return AutoTokenizer.from_pretrained(
        str(path.parent), gguf_file=path.name, local_files_only=True, trust_remote_code=False
    )


def _read(place: Path) -> Any:
    """What is kept at `place`; None where there is nothing, or where a byte of it is not what was written."""
    try:
        if (place / _SUM).read_text() != _sum(place):
            return None
        return AutoTokenizer.from_pretrained(str(place), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        return None


def _keep(tokenizer: Any, place: Path) -> None:
    """Write beside and rename; a folder that cannot be written, or that reads back as another tokenizer, is let be."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="new-", ignore_cleanup_errors=True) as beside:
            draft = Path(beside) / place.name
            tokenizer.save_pretrained(draft)
            (draft / _SUM).write_text(_sum(draft))
            if _likeness(_read(draft)) == _likeness(tokenizer) and _read(place) is None:
                shutil.rmtree(place, ignore_errors=True)
                draft.rename(place)
    except OSError:
        return


def _sum(place: Path) -> str:
    state = hashlib.blake2b(digest_size=16)
    for file in sorted(place.iterdir()):
        if file.name != _SUM:
            state.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return state.hexdigest()


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
