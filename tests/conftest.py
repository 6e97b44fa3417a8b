"""What every test stands on: no network, no telemetry, no model where none was asked for."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Before anything heavy is imported, and inherited by the processes that tests start.
os.environ.update(
    HF_HUB_OFFLINE="1",
    RAY_USAGE_STATS_ENABLED="0",
    TOKENIZERS_PARALLELISM="false",
    WANDB_ERROR_REPORTING="false",
    WANDB_MODE="offline",
)
os.environ.pop("RAY_ADDRESS", None)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is slow, which is not a counterexample.
settings.register_profile("residue", deadline=None)
settings.load_profile("residue")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs a whole file, so that its fixtures are made once; `xdist_group` keeps several files together."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a `gpu` test where there is no GPU; torch is imported for no other test's sake."""
    if item.get_closest_marker("gpu") is None:
        return
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
