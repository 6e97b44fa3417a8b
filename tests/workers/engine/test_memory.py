"""A full device is told apart from a broken trial, by the allocator's own words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workers.engine.memory import memory_errors
from workers.errors import OutOfMemory

FILL = """
import resource
import torch
from workers.engine.memory import memory_errors
from workers.errors import OutOfMemory

torch.zeros(1)
limit = 8 * 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    with memory_errors():
        torch.zeros(limit, dtype=torch.uint8)
except OutOfMemory as full:
    print("OutOfMemory", len(str(full)) > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not keep to RLIMIT_AS")
def test_a_real_allocation_that_fails_is_out_of_memory() -> None:
    done = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["OutOfMemory", "True"], done.stderr


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), ValueError("x")])
def test_another_error_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)), memory_errors():
        raise error


def test_pythons_own_memory_error_counts_too() -> None:
    with pytest.raises(OutOfMemory), memory_errors():
        raise MemoryError
