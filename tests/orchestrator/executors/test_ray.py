"""The executor on real Ray: a head without CPUs, two machines of one CPU each, and workers whose faults are files."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from orchestrator.executors.base import Event, Failed, FailureClass, Ready
from orchestrator.executors.ray import RayExecutor
from orchestrator.executors.ray.actor import Actor
from orchestrator.schedule import Stop, Terms, run
from tests.orchestrator.executors.fakes import Fake
from tests.orchestrator.simulated import Ended, ended, make_blocks, make_job, unmade
from workers.block import Block, Job, Receipt
from workers.errors import ConfigError, StoreError
from workers.quarantine import Grounds

ROOT = Path(__file__).parents[3]
DEADLINE_S = 60.0

# Ray leaves sockets and processes to the garbage collector, which blames whatever test is running then.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@pytest.fixture
def executor(cluster: Cluster) -> Iterator[RayExecutor]:
    made = RayExecutor(cluster.address, worker=Fake)
    yield made
    made.shutdown()


def until(condition: Callable[[], Any]) -> Any:
    """The condition's value as soon as it is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
    return value


def next_event(executor: RayExecutor) -> Event:
    return until(lambda: executor.wait(0.5))[0]


def go(executor: RayExecutor, folder: Path, num_blocks: int, *listeners: Any, **device: float) -> Ended:
    given_up: list[list[str]] = []

    def give_up(job: Job, block: Block, grounds: Grounds) -> Receipt:
        given_up.append([grounds.failure, str(grounds), grounds.traceback])
        return Receipt(block.name, job.model.name, block.num_trials, True, {}, None, {}, 0.0)

    jobs = {"a": make_job("a", store=str(folder), **device)}
    blocks, terms = unmade({"a": make_blocks("a", num_blocks)}), Terms(give_up=give_up)
    outcome = ended(run(blocks, jobs, executor, listeners, Stop(), terms))
    (folder / "given-up").write_text(json.dumps(given_up))
    return outcome


def pids(folder: Path) -> list[int]:
    """The workers that have begun a block."""
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


class Silent:
    """A listener for a test to fill in."""

    def block_done(self, receipt: object) -> None: ...
    def slot_ready(self, model: str, device: str, load_s: float) -> None: ...
    def problem(self, model: str, message: str) -> None: ...
    def finished(self, missing: object) -> None: ...


def test_blocks_go_through_on_both_machines_and_none_is_left_open(executor: RayExecutor, tmp_path: Path) -> None:
    class Gate(Silent):
        """Lets the first block end only when the second slot is there."""

        num_ready = 0

        def slot_ready(self, *_: object) -> None:
            self.num_ready += 1
            if self.num_ready == 2:
                (tmp_path / "hold").unlink()

    (tmp_path / "hold").touch()
    outcome = go(executor, tmp_path, 12, Gate())
    assert (outcome.missing, outcome.num_loads) == ({}, 2)
    assert len(list(tmp_path.glob("done-*"))) == 12
    assert len(pids(tmp_path)) == 2
    assert until(lambda: executor.room(make_job("a")) == 2)


def test_a_slot_does_not_span_machines_and_says_what_there_is(executor: RayExecutor, tmp_path: Path) -> None:
    assert executor.capacity(make_job("a")) == 2
    assert executor.capacity(make_job("a", cpus=2)) == 0
    assert "3 nodes, 2 CPUs, 0 GPUs" in executor.description
    outcome = go(executor, tmp_path, 1, gpus=1)
    assert outcome.reasons["a"].startswith("needs 1 CPU and 1 GPU on one machine; this is Ray at")


def test_room_counts_a_slot_from_the_moment_it_is_opened(executor: RayExecutor, tmp_path: Path) -> None:
    job = make_job("a", store=str(tmp_path))
    slot = executor.open(job)
    assert executor.room(job) == 1
    assert isinstance(next_event(executor), Ready)
    assert executor.room(job) == 1
    executor.close(slot)
    assert until(lambda: executor.room(job) == 2)


def test_no_more_slots_than_were_allowed(cluster: Cluster, tmp_path: Path) -> None:
    executor = RayExecutor(cluster.address, slots=1, worker=Fake)
    try:
        assert (executor.capacity(make_job("a")), executor.room(make_job("a"))) == (1, 1)
        assert go(executor, tmp_path, 4).num_loads == 1
    finally:
        executor.shutdown()


def test_a_model_that_cannot_be_loaded_arrives_with_its_type_and_one_line(
    executor: RayExecutor, tmp_path: Path
) -> None:
    (tmp_path / "no-model").touch()
    slot = executor.open(make_job("a", store=str(tmp_path)))
    assert next_event(executor) == Failed(slot, FailureClass.MODEL, "planted: no model", ())


def test_a_store_that_cannot_be_written_stops_the_run(executor: RayExecutor, tmp_path: Path) -> None:
    (tmp_path / "no-store").touch()
    with pytest.raises(StoreError, match=r"^planted: no store$"):
        go(executor, tmp_path, 4)


def test_a_bug_is_named_in_one_line_beside_its_traceback(executor: RayExecutor, tmp_path: Path) -> None:
    (tmp_path / "bug").touch()
    assert go(executor, tmp_path, 1).missing == {}
    given_up = json.loads((tmp_path / "given-up").read_text())
    assert len(given_up) == 2, "each of the block's trials, alone"
    for failure, line, traceback in given_up:
        assert failure == "bug"
        assert line.endswith(" times: KeyError: 'planted'")
        assert 'raise KeyError("planted")' in traceback


def test_a_full_device_is_told_from_a_bug(executor: RayExecutor, tmp_path: Path) -> None:
    (tmp_path / "full").touch()
    slot = executor.open(make_job("a", store=str(tmp_path)))
    assert isinstance(next_event(executor), Ready)
    executor.submit(slot, make_blocks("a", 1)[0])
    event = next_event(executor)
    assert isinstance(event, Failed)
    assert (event.failure, "OutOfMemory" in event.message) == (FailureClass.MEMORY, True)


def test_two_machines_are_two_places_even_at_one_address(executor: RayExecutor, tmp_path: Path) -> None:
    for _ in range(2):
        executor.open(make_job("a", store=str(tmp_path)))
    events = [next_event(executor), next_event(executor)]
    assert len({event.place for event in events if isinstance(event, Ready)}) == 2


def test_a_worker_killed_in_the_middle_of_a_block_is_replaced_and_the_block_is_run(
    executor: RayExecutor, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    job, blocks = make_job("a", store=str(tmp_path)), make_blocks("a", 2)
    slot = executor.open(job)
    assert isinstance(next_event(executor), Ready)
    for block in blocks:
        executor.submit(slot, block)
    os.kill(until(lambda: pids(tmp_path))[0], signal.SIGKILL)
    event = next_event(executor)
    assert isinstance(event, Failed)
    assert (event.failure, event.blocks) == (FailureClass.LOST, tuple(blocks))
    assert event.message.startswith("the worker died (pid ")
    assert "\n" not in event.message
    (tmp_path / "hold").unlink()
    assert go(executor, tmp_path, 2).missing == {}


@pytest.mark.parametrize("letter", ["x", "é", "😀", "\ud800"])
def test_a_receipt_stays_under_a_kilobyte(letter: str) -> None:
    """ray#49173: caches and rows that filled the object store."""
    flips = {f"position_control_{i}": 1 for i in range(12)}
    receipt = Receipt(
        "a" * 32,
        "model",
        500,
        True,
        {"done": 1, "error": 1},
        flips,
        dict.fromkeys(("error", "invalid", "unsupported"), letter * 300),
        1.0,
    )
    actor = Actor()
    actor.worker = SimpleNamespace(run=lambda block: receipt)  # type: ignore[assignment]
    sent = actor.run(make_blocks("a", 1)[0])
    assert all(sent.reasons.values())
    assert len(pickle.dumps(sent)) < 1024


@pytest.mark.parametrize("moment", ["die-loading", "die"])
def test_a_run_survives_a_worker_that_dies(executor: RayExecutor, tmp_path: Path, moment: str) -> None:
    """EasyR1#185, ray#44719: a worker that the system kills, while it restarts too."""
    (tmp_path / moment).touch()
    outcome = go(executor, tmp_path, 6)
    assert outcome.missing == {}
    assert not (tmp_path / moment).exists()
    assert len(list(tmp_path.glob("done-*"))) == 6


def test_a_machine_that_differs_from_the_driver_is_refused_with_what_differs(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(executor._versions, "torch", "0.0.0")
    reason = go(executor, tmp_path, 3).reasons["a"]
    assert reason.startswith("versions differ on ")
    assert reason.endswith(" there and 0.0.0 on the driver")


def test_a_slot_whose_room_is_gone_does_not_wait_for_ever(cluster: Cluster, tmp_path: Path) -> None:
    executor = RayExecutor(cluster.address, worker=Fake, placement_s=1.0)
    try:
        slot = executor.open(make_job("a", gpus=1, store=str(tmp_path)))
        event = next_event(executor)
        assert isinstance(event, Failed)
        assert (event.slot, event.failure) == (slot, FailureClass.UNPLACED)
    finally:
        executor.shutdown()


def test_a_machine_that_joins_is_used_and_one_that_leaves_is_done_without(
    cluster: Cluster, executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ray#50640, ray#41285: a machine that is taken away used up the retries of what ran there."""

    def operate() -> Iterator[None]:
        while len(pids(tmp_path)) < 2:
            yield
        node = cluster.add_node(num_cpus=1)
        while len(pids(tmp_path)) < 3:
            yield
        cluster.remove_node(node, allow_graceful=False)
        while not failures:
            yield
        (tmp_path / "hold").unlink()

    def noted(timeout_s: float) -> list[Event]:
        next(steps, None)
        events = wait(timeout_s)
        failures.extend(event.failure for event in events if isinstance(event, Failed))
        return events

    (tmp_path / "hold").touch()
    failures: list[FailureClass] = []
    steps, wait = operate(), executor.wait
    monkeypatch.setattr(executor, "wait", noted)
    assert go(executor, tmp_path, 20).missing == {}
    assert failures == [FailureClass.PREEMPTED], "its block is not to blame"
    assert next(steps, "over") == "over"
    assert len(list(tmp_path.glob("done-*"))) == 20


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:10001", "nowhere"])
def test_a_cluster_that_does_not_answer_is_one_line(address: str) -> None:
    with pytest.raises(ConfigError, match=f"Ray at {address} cannot be used"):
        RayExecutor(address)


DRIVER = """
import sys
from pathlib import Path
from orchestrator.executors.ray import RayExecutor
from orchestrator.schedule import Stop, run
from tests.orchestrator.executors.fakes import Fake
from tests.orchestrator.simulated import ended, make_blocks, make_job, unmade

folder = Path(sys.argv[1])
executor = RayExecutor(cpus=1, worker=Fake)
with Stop() as stop:
    blocks = unmade({"a": make_blocks("a", 4)})
    outcome = ended(run(blocks, {"a": make_job("a", store=str(folder))}, executor, [], stop))
executor.shutdown()
print(outcome.was_interrupted, len(outcome.missing) // 2)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run on a Ray of its own, in another folder and process group, whose first block has begun and is held."""
    (tmp_path / "hold").touch()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(lambda: pids(tmp_path) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate()


def family(session: int) -> dict[int, str]:
    """The living processes of a session: pid → command line."""
    lines = subprocess.check_output(["ps", "-eww", "-o", "sess=,pid=,stat=,args="], text=True).splitlines()
    fields = (line.split(None, 3) for line in lines)
    return {
        int(pid): command for sid, pid, status, command in fields if int(sid) == session and not status.startswith("Z")
    }


def test_control_c_reaches_only_the_driver_and_the_block_at_work_is_committed(
    driver: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.killpg(driver.pid, signal.SIGINT)
    (tmp_path / "hold").unlink()
    printed, _ = driver.communicate(timeout=DEADLINE_S)
    num_done = len(list(tmp_path.glob("done-*")))
    assert printed == f"True {4 - num_done}\n"
    assert 1 <= num_done <= 2
    assert driver.returncode == 0


def test_a_ray_of_our_own_lets_nobody_in_without_its_token_and_does_not_outlive_its_driver(
    driver: subprocess.Popen[str],
) -> None:
    """GraphGen#130, vllm#20860: processes that kept the device after the run."""
    commands = " ".join(family(driver.pid).values())
    found = re.search(r"--gcs-address=(\S+)", commands)
    assert found
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")} | {"HOME": os.devnull}
    command = [sys.executable, "-c", f"import ray; ray.init({found[1]!r}, log_to_driver=False)"]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert "InvalidAuthToken" in refused.stderr
    assert all(name in commands for name in ("gcs_server", "raylet", "ray::Actor.run"))
    driver.kill()
    # Two agents of Ray's linger for as long as they look for their head; they hold no model and take no work.
    until(lambda: not [c for c in family(driver.pid).values() if not c.endswith("Agent")])
