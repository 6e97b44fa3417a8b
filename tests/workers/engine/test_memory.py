"""A full device is told apart from a broken trial, by the allocator's own words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from workers.engine import Engine, Handle
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


@pytest.mark.parametrize(
    ("owner", "method", "call"),
    [
        pytest.param(torch, "tensor", lambda engine, handle: engine.prefill((1, 2)), id="prefill"),
        pytest.param(torch, "arange", lambda engine, handle: engine.feed(handle, (1, 2)), id="feed"),
        pytest.param(torch.Tensor, "clone", lambda engine, handle: engine.fork(handle), id="fork"),
        pytest.param(DynamicCache, "crop", lambda engine, handle: engine.crop(handle, 9), id="the library's crop"),
        pytest.param(torch.Tensor, "clone", lambda engine, handle: engine.crop(handle, 9), id="what crop leaves"),
        pytest.param(torch.Tensor, "copy_", lambda engine, handle: engine.mask(handle, 3, 5), id="the proof of a mask"),
        pytest.param(torch.Tensor, "contiguous", lambda engine, handle: engine.digest(handle), id="digest"),
        pytest.param(
            torch.Tensor, "aminmax", lambda engine, handle: engine.distance(handle, engine.fork(handle)), id="distance"
        ),
        pytest.param(torch.Tensor, "topk", lambda engine, handle: engine.decode(handle, 2), id="decode"),
        pytest.param(torch.Tensor, "log_softmax", lambda engine, handle: engine.score(handle, "a word"), id="score"),
    ],
)
def test_a_device_that_fills_up_in_any_call_makes_no_trial_an_error_or_unsupported(
    tiny: Callable[[str], Engine],
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    method: str,
    call: Callable[[Engine, Handle], object],
) -> None:
    def fill(*args: object, **named: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    engine = tiny("mistral")
    # The model is shared by the tests, and one of them may have had its mask proven.
    monkeypatch.setattr(engine, "_refusals", {})
    handle = engine.prefill(tuple(range(100, 120)))
    monkeypatch.setattr(owner, method, fill)
    with pytest.raises(OutOfMemory):
        call(engine, handle)
