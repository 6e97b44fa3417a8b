"""What is converted once a node and read by every later start: a folder that is there is whole, or is not used."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import xxhash

from workers.identity import digest

_SUM = "xxh3"


def place(kind: str, *what: str) -> Path:
    """Where the conversion of `what` is kept, in `$RESIDUE_CACHE`, or `residue` in `$XDG_CACHE_HOME` or `~/.cache`.

    Args:
        kind: the folder's name, such as `tokenizers`.
        what: all that the result depends on, so that a changed file or a newer library is another place.
    """
    ours = os.environ.get("RESIDUE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "residue")
    return Path(ours).expanduser() / kind / digest("\n".join(what))


def version(package: str) -> str:
    """The installed version of a package; `absent` where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def is_whole(place: Path) -> bool:
    """Whether every byte there is what was written; not against somebody who means harm, who could write the sum."""
    try:
        return (place / _SUM).read_text() == _sum(place)
    except (OSError, ValueError):
        return False


def keep(place: Path, write: Callable[[Path], object], reads_back: Callable[[Path], bool]) -> None:
    """Write beside and rename; what others wrote meanwhile stays, and what does not read back is let be.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="new-", ignore_cleanup_errors=True) as beside:
        draft = Path(beside) / place.name
        draft.mkdir()
        write(draft)
        (draft / _SUM).write_text(_sum(draft))
        if reads_back(draft) and not is_whole(place):
            # Only its name goes: who has a file of it mapped keeps the pages.
            shutil.rmtree(place, ignore_errors=True)
            draft.rename(place)


def _sum(place: Path) -> str:
    state = xxhash.xxh3_128()
    for path in sorted(place.iterdir()):
        if path.name != _SUM:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
            state.update(f"{path.name} {path.stat().st_size} {content}\n".encode())
    return state.hexdigest()
