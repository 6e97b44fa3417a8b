"""A cluster made of numbers: an executor with a clock of its own, whose faults are decided where they strike."""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.allocation import Outcome
from orchestrator.executors import fit
from orchestrator.executors.base import Done, Event, Failed, FailureClass, Ready
from orchestrator.executors.fit import Resources
from orchestrator.executors.share import Share, share
from tests.planned import halves
from workers.block import Block, Job, Receipt, Trial, Work
from workers.episode import Episode, Message
from workers.identity import Identity
from workers.quarantine import Grounds
from workers.spec import Device, ModelSpec, ScriptedSource

IN_FLIGHT = 2

Fate = Callable[[str, Block | None], FailureClass | None]
"""(model, block or None for the load) → how the slot fails at that moment, if it does."""


def make_job(model: str, cpus: float = 1, gpus: float = 0, store: str = "store") -> Job:
    """A worker's start; nothing is ever loaded."""
    spec = ModelSpec(
        name=model,
        source=ScriptedSource(kind="scripted"),
        device=Device(cpus=cpus, gpus=gpus),
        reply_format="send_line",
        roles={},
    )
    return Job(spec, "{}", "rollback", store, "run", "class", 1)


def make_block(model: str, episodes: Sequence[str], num_arms: int = 2) -> Block:
    """A block of named episodes."""
    turn = (Message("user", "text"),)

    def work(name: str) -> Work:
        identities = [Identity("1", "s/1", model, name, f"arm{i}/1", "{}", "") for i in range(num_arms)]
        trials = tuple(Trial(f"arm{i}", identity, 0, 0) for i, identity in enumerate(identities))
        return Work(name, Episode("s", {}, turn, turn, turn, (), {}), trials)

    return Block(model, tuple(map(work, episodes)))


def make_blocks(model: str, num_blocks: int, num_episodes: int = 1, num_arms: int = 2) -> list[Block]:
    """Blocks of so many episodes, named `model/block/episode`."""
    return [make_block(model, [f"{model}/{b}/{e}" for e in range(num_episodes)], num_arms) for b in range(num_blocks)]


@dataclass(frozen=True)
class Whole:
    """A block that is there already, for a schedule that would have it made."""

    block: Block

    @property
    def num_trials(self) -> int:
        return self.block.num_trials

    def halves(self) -> tuple[Whole, Whole]:
        first, second = halves(self.block)
        return Whole(first), Whole(second)

    def made(self, attempt: int = 1) -> Block:
        return replace(self.block, attempt=attempt)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whole) and self.block.name == other.block.name

    def __hash__(self) -> int:
        return hash(self.block.name)


def unmade(blocks: Mapping[str, Sequence[Block]]) -> dict[str, list[Whole]]:
    """Blocks as a schedule takes them."""
    return {model: [Whole(block) for block in queue] for model, queue in blocks.items()}


@dataclass(frozen=True)
class Ended:
    """What a run left behind: (cell_id, draw) → why it is missing, and the rest of its `Outcome`."""

    missing: dict[tuple[str, int], str]
    reasons: dict[str, str]
    was_interrupted: bool
    num_loads: int


def ended(outcome: Outcome[Whole]) -> Ended:
    """The outcome by trial."""
    missing = {key: reason for block, reason in outcome.missing for key in trials([block.block])}
    assert len(missing) == sum(block.num_trials for block, _ in outcome.missing), "a trial was given up twice"
    return Ended(missing, outcome.reasons, outcome.was_interrupted, outcome.num_loads)


def trials(blocks: Sequence[Block]) -> Iterator[tuple[str, int]]:
    """(cell_id, draw) of the trials that blocks hold."""
    return ((trial.cell_id, trial.draw) for block in blocks for work in block.works for trial in work.trials)


def episodes(block: Block | None) -> list[str]:
    """The names of a block's episodes."""
    return [work.episode_id for work in block.works] if block else []


@dataclass
class SimulatedSlot:
    job: Job
    machine: int
    is_loaded: bool = False
    blocks: deque[Block] = field(default_factory=deque)


class Simulated:
    """Slots on `machines`; a load takes `load_s`, an episode one second. Breaks on any misuse of the interface.

    Attributes:
        log: what it was asked and what happened, in order, such as `open a`, `run a/0/0`, `close a`.
        committed: episode → how often it was committed.
        recorded: (cell_id, draw) → how often it was committed.
        quarantined: (cell_id, draw) → why it was given up.
        place_fate: (machine, block or None for the load) → how a slot there fails, if it does.
        takes_s: how long a block takes; for ever, where it hangs.
        stop: model → what its receipts say, once a block of it is done.
        before_wait: called before each wait, with this executor; scenarios act there.
    """

    def __init__(self, machines: Sequence[Resources], fate: Fate = lambda *_: None, load_s: float = 2.0) -> None:
        self.machines = list(machines)
        self.taken = [Resources(0, 0)] * len(machines)
        self.fate = fate
        self.load_s = load_s
        self.now = 0.0
        self.log: list[str] = []
        self.committed: Counter[str] = Counter()
        self.recorded: Counter[tuple[str, int]] = Counter()
        self.place_fate: Callable[[int, Block | None], FailureClass | None] = lambda *_: None
        self.tried: list[tuple[int, Block]] = []
        self.num_asked: Counter[str] = Counter()
        self.before_wait: Callable[[Simulated], None] = lambda _: None
        self.quarantined: dict[tuple[str, int], Grounds] = {}
        self.takes_s: Callable[[Block], float] = lambda block: float(len(block.works))
        self.stop: dict[str, str] = {}
        self.is_shut = False
        self.slots: dict[int, SimulatedSlot] = {}
        self.most_slots = 0
        self._num_opened = 0
        self._pending: list[tuple[float, int, int, FailureClass | None]] = []

    @property
    def description(self) -> str:
        return f"a simulation of {len(self.machines)} machines"

    def free(self) -> list[Resources]:
        return [machine.minus(taken) for machine, taken in zip(self.machines, self.taken, strict=True)]

    def _take(self, job: Job, machine: int, sign: int) -> None:
        cpus, gpus = need(job)
        self.taken[machine] = self.taken[machine].minus(Resources(-sign * cpus, -sign * gpus))

    def _free(self, number: int) -> SimulatedSlot:
        slot = self.slots.pop(number)
        self._take(slot.job, slot.machine, -1)
        return slot

    def share(self, device: Device) -> Share:
        return share(device, self.machines)

    def room(self, job: Job) -> int:
        self.num_asked["room"] += 1
        return fit.total(self.free(), need(job))

    def capacity(self, job: Job) -> int:
        return fit.total(self.machines, need(job))

    def open(self, job: Job) -> int:
        machine = next(i for i, free in enumerate(self.free()) if fit.count(free, need(job)))
        self._num_opened += 1
        self.slots[self._num_opened] = SimulatedSlot(job, machine)
        self._take(job, machine, 1)
        self.most_slots = max(self.most_slots, len(self.slots))
        self.log.append(f"open {job.model.name}")
        self._begin(self._num_opened, self.load_s, None)
        return self._num_opened

    def submit(self, slot: int, block: Block) -> None:
        taken = self.slots[slot]
        assert taken.job.model.name == block.model, "a block of another model"
        taken.blocks.append(block)
        assert len(taken.blocks) <= IN_FLIGHT, "too many in flight"
        if taken.is_loaded and len(taken.blocks) == 1:
            self._run(slot)

    def wait(self, timeout_s: float) -> list[Event]:
        self.num_asked["wait"] += 1
        assert self.num_asked["wait"] < 100_000, "nothing happens any more, and the run is not over"
        self.before_wait(self)
        while self._pending and self._pending[0][0] < math.inf:
            at, _, number, failure = heapq.heappop(self._pending)
            if number not in self.slots:
                continue
            self.now = max(self.now, at)
            return [self._happen(number, failure)]
        self.now += timeout_s
        return []

    def close(self, slot: int) -> None:
        self.log.append(f"close {self._free(slot).job.model.name}")

    def shutdown(self) -> None:
        self.is_shut = True
        for slot in list(self.slots):
            self._free(slot)

    def give_up(self, job: Job, block: Block, grounds: Grounds) -> Receipt:
        """What a schedule does with a trial whose failures are enough."""
        for trial in trials([block]):
            assert trial not in self.quarantined, "given up twice"
            self.quarantined[trial] = grounds
        return Receipt(block.name, block.model, block.num_trials, True, {"error": block.num_trials}, None, {}, 0.0)

    def add_machine(self, machine: Resources) -> None:
        """A machine joins."""
        self.machines.append(machine)
        self.taken.append(Resources(0, 0))

    def lose_machine(self, machine: int) -> None:
        """A machine goes away, with the slots on it."""
        self.machines[machine] = Resources(0, 0)
        for number, slot in self.slots.items():
            if slot.machine == machine:
                heapq.heappush(self._pending, (self.now, 0, number, FailureClass.LOST))

    def _run(self, number: int) -> None:
        block = self.slots[number].blocks[0]
        self.log.append(f"run {' '.join(episodes(block))}")
        self._begin(number, self.takes_s(block), block)

    def _begin(self, number: int, takes_s: float, block: Block | None) -> None:
        slot = self.slots[number]
        failure = self.fate(slot.job.model.name, block) or self.place_fate(slot.machine, block)
        if block is not None:
            self.tried.append((slot.machine, block))
        heapq.heappush(self._pending, (self.now + takes_s, number, number, failure))

    def _happen(self, number: int, failure: FailureClass | None) -> Event:
        slot = self.slots[number]
        if failure is not None:
            self._free(number)
            self.log.append(f"{failure.value} {slot.job.model.name}")
            return Failed(number, failure, f"planted {failure.value}", tuple(slot.blocks))
        if not slot.is_loaded:
            slot.is_loaded = True
            if slot.blocks:
                self._run(number)
            return Ready(number, "none", self.load_s, f"machine {slot.machine}")
        block = slot.blocks.popleft()
        self.committed.update(episodes(block))
        self.recorded.update(trials([block]))
        if slot.blocks:
            self._run(number)
        seconds, stop = float(len(block.works)), self.stop.get(block.model, "")
        return Done(number, Receipt(block.name, block.model, block.num_trials, True, {}, {}, {}, seconds, stop))


def need(job: Job) -> Resources:
    return Resources(job.model.device.num_cpus, job.model.device.gpus)
