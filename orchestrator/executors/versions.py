"""Whether a worker's machine computes with the same code as the driver's."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path

import workers

LIBRARIES = ("torch", "transformers")


def versions() -> dict[str, str]:
    """Of this process: Python, the libraries that compute the numbers, and the source of `workers`."""
    libraries = {name: _installed(name) for name in LIBRARIES}
    return {"python": platform.python_version(), **libraries, "workers": source_digest()}


def differences(here: dict[str, str], driver: dict[str, str]) -> str:
    """One clause for each thing that differs; empty when all agree."""
    return "; ".join(
        f"{name} is {here.get(name, 'absent')} there and {wanted} on the driver"
        for name, wanted in driver.items()
        if here.get(name) != wanted
    )


def source_digest() -> str:
    """First half of a hash of every source file of `workers`, names included."""
    root = Path(workers.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _installed(package: str) -> str:
    try:
        # What follows the plus names the build (cpu, cu128), and a laptop may drive machines with GPUs.
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        return "absent"
