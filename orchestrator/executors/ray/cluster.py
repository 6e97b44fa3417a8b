"""The cluster: started or joined, and what its machines have."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import ray

import orchestrator
import workers
from orchestrator.executors.fit import Resources
from orchestrator.executors.ray.errors import last_line
from workers import faults
from workers.errors import ConfigError

OBJECT_STORE_BYTES = 128 * 2**20
"""Nothing of ours lives there: blocks and receipts travel inside the calls."""
ANSWER_S = 10.0
"""How long the head of a cluster may take to answer."""
SNAPSHOT_S = 0.5
"""How long Ray's answer about resources is believed; it lags by as much."""


class Cluster:
    """A connection to Ray; there is one in a process.

    Args:
        address: None starts Ray on this machine; `auto` or host:port joins a cluster.
        cpus: CPUs that a local Ray counts on; None those of the machine.

    Raises:
        ConfigError: no cluster answers at `address`, or it does not let this driver in.
    """

    def __init__(self, address: str | None, cpus: int | None) -> None:
        self._name = "Ray on this machine" if address is None else f"Ray at {address}"
        self._snapshot: tuple[float, dict[str, Resources], Resources] | None = None
        with _one_line_errors(self._name), _sigterm_kept():
            _connect(address, cpus)

    @property
    def description(self) -> str:
        """Where, and how much of it there is."""
        nodes, _ = self.resources()
        cpus, gpus = (sum(values) for values in zip(Resources(0, 0), *nodes.values(), strict=True))
        return f"{self._name}: {len(nodes)} node{'s' * (len(nodes) != 1)}, {cpus:g} CPUs, {gpus:g} GPUs"

    def resources(self) -> tuple[dict[str, Resources], Resources]:
        """What each living machine has in all, and what is free of their sum."""
        now = time.monotonic()
        if self._snapshot is None or now - self._snapshot[0] > SNAPSHOT_S:
            nodes = ray.nodes()  # type: ignore[no-untyped-call]
            alive = {node["NodeID"]: _of(node["Resources"]) for node in nodes if node["Alive"]}
            free = _of(ray.available_resources())  # type: ignore[no-untyped-call]
            self._snapshot = now, alive, free
        return self._snapshot[1:]

    def leave(self) -> None:
        """Disconnect; a Ray that was started here ends."""
        ray.shutdown()


def _of(resources: dict[str, float]) -> Resources:
    return Resources(resources.get("CPU", 0.0), resources.get("GPU", 0.0))


def _connect(address: str | None, cpus: int | None) -> None:
    # The second block of a lost slot fails unasked; Ray would print its traceback into the display.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
    shared: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            # Ray would make a token of its own, and leave it in the home folder for ever.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        # No runtime environment: these workers import what the driver does, and Ray starts no worker in one when the
        # interpreter's path holds a space.
        own: dict[str, Any] = {
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
        }
        ray.init("local", **own, **shared)
    else:
        if address != "auto":
            _ask(address)
        code: dict[str, Any] = {"py_modules": [package.__path__[0] for package in (workers, orchestrator)]}
        if faults.VARIABLE in os.environ:
            code["env_vars"] = {faults.VARIABLE: os.environ[faults.VARIABLE]}
        ray.init(address, runtime_env=code, **shared)
    # Ray prints an essay on every dead worker into the display, whatever its log level; ours is one line.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _ask(address: str) -> None:
    # Where nobody listens, Ray tries for a minute and then ends this process.
    host, _, port = address.rpartition(":")
    if "/" in host or not host or not port.isdigit():
        raise ConfigError("an address is `auto`, or host:port of the cluster's head (6379, not Ray Client's)")
    socket.create_connection((host, int(port)), timeout=ANSWER_S).close()


@contextlib.contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ConfigError(f"{name} cannot be used: {last_line(error)}") from error


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    # ray.init puts a handler of its own in place of whatever is there; only a default one may go.
    before = signal.getsignal(signal.SIGTERM)
    yield
    if before not in (None, signal.SIG_DFL) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)
