"""Torch's ways of saying that the device is full, as one error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workers.errors import OutOfMemory


@contextmanager
def memory_errors() -> Iterator[None]:
    """Translate; a full host is a plain RuntimeError of the CPU allocator's."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as full:
        raise OutOfMemory(str(full)) from full
    except RuntimeError as failure:
        if "allocate memory" in str(failure):
            raise OutOfMemory(str(failure)) from failure
        raise
