"""Torch's ways of saying that the device is full, as one error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from workers.errors import raise_if_full


@contextmanager
def memory_errors() -> Iterator[None]:
    """Translate.

    Raises:
        OutOfMemory: the device is full, or the host.
    """
    try:
        yield
    except Exception as error:
        raise_if_full(error)
        raise
