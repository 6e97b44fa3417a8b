"""Who a cell is: what was asked, never how it was run (DESIGN §4.1).

A cell's id hashes eight strings. They are stored in the row as `identity`, so the id can be computed again from the
row alone, and so that two ids can be compared field by field to say *why* a stored result no longer applies.
"""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from typing import Any, NamedTuple

IDENTITY_VERSION = "1"


def digest(text: str) -> str:
    """128 bits of BLAKE2b over UTF-8 (lone surrogates kept), in hex."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def canonical(value: Any) -> str:
    """One text for one JSON value: sorted keys, no spaces."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class Identity(NamedTuple):
    """The parts of a cell's id; a change in any of them makes the cell a new one."""

    version: str
    study: str
    """Name and version, `rollback/1`."""
    model: str
    """Digest of the model's identity (weights, dtype, attention, template)."""
    episode: str
    """Digest of the episode's messages, axes and facts."""
    arm: str
    """Name and version, `stale/1`."""
    decode: str
    """Decode settings as canonical JSON, without the number of draws."""
    libraries: str
    """major.minor of transformers and torch."""

    @property
    def cell_id(self) -> str:
        """The id: 32 hex digits."""
        return digest("\x1f".join(self))

    @property
    def text(self) -> str:
        """As stored in the row."""
        return canonical(self._asdict())

    @classmethod
    def from_text(cls, text: str) -> Identity:
        """Read back from a stored row."""
        return cls(**json.loads(text))


def libraries() -> str:
    """major.minor of the libraries that compute the numbers, without importing them."""
    return ", ".join(f"{name} {_minor(name)}" for name in ("transformers", "torch"))


def _minor(package: str) -> str:
    try:
        return ".".join(metadata.version(package).split(".")[:2])
    except metadata.PackageNotFoundError:
        return "absent"
