"""Slots and threads come from the machines; what a model's YAML says is not overruled."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import config
from orchestrator import run as running
from orchestrator.executors import fit
from orchestrator.executors.fit import Resources
from orchestrator.executors.inline import InlineExecutor
from orchestrator.executors.share import MOST_THREADS, num_cores, share
from orchestrator.listener import Start
from tests.orchestrator.simulated import make_job
from workers import parquet
from workers.spec import Device

AUTO = Device()
MACHINES = st.lists(st.integers(1, 96), min_size=1, max_size=5)


def machines(*cores: float, gpus: float = 0) -> list[Resources]:
    return [Resources(cpus, gpus) for cpus in cores]


@pytest.mark.parametrize(
    ("cores", "num_threads", "slots_per_node"),
    [((1,), 1, 1), ((2,), 2, 1), ((8,), 8, 1), ((12,), 6, 2), ((16,), 8, 2), ((4, 32), 4, 8), ((0, 2), 2, 1)],
)
def test_one_wide_slot_comes_before_several(cores: tuple[int, ...], num_threads: int, slots_per_node: int) -> None:
    found = share(AUTO, machines(*cores))
    assert (found.num_threads, found.slots_per_node) == (num_threads, slots_per_node)
    assert found.device.cpus == num_threads


@given(MACHINES)
def test_no_other_width_uses_more_cores(cores: list[int]) -> None:
    found, nodes = share(AUTO, machines(*cores)), machines(*cores)
    used = {cpus: cpus * fit.total(nodes, Resources(cpus, 0)) for cpus in range(1, MOST_THREADS + 1)}
    assert used[found.num_threads] == max(used.values())
    assert all(used[wider] < used[found.num_threads] for wider in used if wider > found.num_threads)


@given(MACHINES, st.integers(1, 4))
def test_fewer_slots_are_wider(cores: list[int], most: int) -> None:
    assert share(AUTO, machines(*cores), most).num_threads >= share(AUTO, machines(*cores)).num_threads
    assert share(AUTO, machines(*cores), most).slots_per_node <= most


@given(MACHINES, st.sampled_from([0.5, 1.0, 3.0]))
def test_numbers_in_the_yaml_are_kept(cores: list[int], cpus: float) -> None:
    found = share(Device(cpus=cpus), machines(*cores))
    assert found.device.cpus == cpus
    assert found.num_threads == max(1, int(cpus))
    assert "device.cpus" in found.why


def test_a_model_on_gpus_gets_a_slot_a_gpu_and_its_part_of_the_cores() -> None:
    """hydra#1331: several GPUs of one machine were not used at once."""
    found = share(Device(gpus=1), [*machines(16, gpus=4), *machines(64)])
    assert (found.num_threads, found.slots_per_node) == (4, 4)
    assert share(Device(gpus=2), machines(16, gpus=4)).slots_per_node == 2


def test_a_model_that_fits_nowhere_still_says_what_it_needs() -> None:
    found = share(Device(gpus=1), machines(2))
    assert (found.device.num_cpus, found.device.gpus, found.slots_per_node) == (1, 1, 1)


def test_this_process_is_one_slot_of_all_its_cores() -> None:
    found = InlineExecutor().share(AUTO)
    assert found.slots_per_node == 1
    assert found.num_threads == min(MOST_THREADS, num_cores())


def test_the_header_states_slots_threads_and_why() -> None:
    assert str(share(AUTO, machines(2))) == "1 slot a machine × 2 threads (2 cores, at most 8 threads a slot)"
    assert str(share(Device(cpus=1), machines(2))) == "2 slots a machine × 1 thread (device.cpus=1)"
    assert str(share(AUTO, machines(2, 16))).endswith("(2 to 16 cores, at most 8 threads a slot)")


def test_the_run_s_row_and_its_header_tell_what_a_slot_took(tmp_path: Path) -> None:
    composed = config.load(["model=scripted", "executor=inline", "limit=1", f"store.root={tmp_path}"])
    left_open = tuple(model.model_copy(update={"device": AUTO}) for model in composed.models)
    prepared = running.prepare(replace(composed, models=left_open))
    prepared.store.prepare()
    heard: list[Start] = []
    listener = mock.Mock(started=heard.append)
    running.carry_out(prepared, "run", ["test"], [listener])
    (row,) = parquet.read(tmp_path / "runs" / "part-run.parquet").to_pylist()
    cpus = min(MOST_THREADS, num_cores())
    assert json.loads(row["config"])["model_files"]["scripted"]["device"]["cpus"] == cpus
    assert [start.slots for start in heard] == [{"scripted": str(InlineExecutor().share(AUTO))}]


@pytest.mark.parametrize(("most", "weights"), [(1, "packed"), (None, "mapped")])
def test_slots_that_are_not_alone_on_a_machine_share_its_weights(most: int | None, weights: str) -> None:
    found = share(Device(cpus=1), machines(2), most)
    assert replace(make_job("a"), slots_per_node=found.slots_per_node).weights == weights
