"""Any interleaving of commit, kill and resume, by any number of writers, ends in the table of an undisturbed run."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from orchestrator import config
from orchestrator.ledger import records
from tests.orchestrator.unions import laid_out
from tests.planned import blocks, planned
from workers import faults, parquet, rows
from workers.block import Block, Job, Row
from workers.schema import CORE
from workers.store import Store
from workers.studies import get
from workers.worker import Worker

STEPS = ("asked", "torn", "written", "linked", "committed")
SEALED = [column.name for column in (*CORE, *get("rollback").columns) if column.is_sealed]
Key = tuple[str, int]


class Killed(BaseException):
    """The process is gone: nothing of it runs any more, no `finally` either."""


class Writers:
    """One block of a grid without a model, computed once, and committed in whatever shares somebody asks for."""

    def __init__(self) -> None:
        composed = config.load(["model=scripted", "limit=12"])
        (found,) = blocks(planned(laid_out(composed).cells), 2)["scripted"][:1]
        self.job = Job(composed.models[0], "{}", "rollback", "nowhere", "run", "class", 1)
        self.asked = {key(trial): (work, trial) for work in found.works for trial in work.trials}
        made, _ = Worker(self.job).rows(found)
        self.rows: dict[Key, Row] = {(row["cell_id"], row["draw"]): row for row in made}

    def block(self, keys: Sequence[Key]) -> Block:
        """The block of these trials."""
        works = {work.episode_id: work for work, _ in (self.asked[one] for one in keys)}
        shares = {
            name: tuple(self.asked[one][1] for one in keys if self.asked[one][0] is work)
            for name, work in works.items()
        }
        return Block("scripted", tuple(replace(work, trials=shares[name]) for name, work in works.items()))

    def commit(self, store: Path, keys: Sequence[Key], die_at: str | None) -> None:
        """Commit them, or die at that step."""
        job = replace(self.job, store=str(store))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(faults, "point", lambda name, torn=None: die(name, die_at, torn, patch))
            with contextlib.suppress(Killed):
                rows.commit(job, self.block(keys), [self.rows[one] for one in keys])


def key(trial: Any) -> Key:
    return trial.cell_id, trial.draw


def die(name: str, die_at: str | None, torn: Path | None, patch: pytest.MonkeyPatch) -> None:
    """What SIGKILL does at that point: half a file may be there, and nobody tidies up."""
    if die_at is None or name != f"trials:{die_at}":
        return
    if torn is not None:
        os.truncate(torn, torn.stat().st_size // 2)
    patch.setattr(Path, "unlink", lambda *_, **__: None)
    raise Killed


WRITERS = Writers()
KEYS = st.lists(st.sampled_from(sorted(WRITERS.rows)), min_size=1, max_size=12, unique=True).map(sorted)


class Interleaving(RuleBasedStateMachine):
    """Writers that know nothing of each other, on one store."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="residue-"))
        self.store = Store(self.root)
        self.store.prepare()
        self.was_committed: set[Key] = set()

    @rule(keys=KEYS, die_at=st.sampled_from((None, *STEPS)))
    def commit(self, keys: list[Key], die_at: str | None) -> None:
        """A worker, of this driver or of a dead one, commits what it was once given."""
        WRITERS.commit(self.root, keys, die_at)
        if die_at in (None, "linked", "committed"):
            self.was_committed |= set(keys)

    @rule(size=st.integers(1, 12), die_at=st.sampled_from((None, *STEPS)))
    def resume(self, size: int, die_at: str | None) -> None:
        """A driver asks what is missing, and gets one block further."""
        if missing := sorted(WRITERS.rows.keys() - self.recorded()):
            WRITERS.commit(self.root, missing[:size], die_at)
            if die_at in (None, "linked", "committed"):
                self.was_committed |= set(missing[:size])

    @invariant()
    def nothing_committed_is_lost_and_no_part_is_torn(self) -> None:
        """At every moment."""
        assert self.recorded() == self.was_committed
        assert self.store.damaged() == []

    def recorded(self) -> set[Key]:
        """Trials, as a driver reads them."""
        found = list(records(self.store, "rollback"))
        return {pair for one in found for pair in zip([*one.ids], one.draws.tolist(), strict=True)}

    def teardown(self) -> None:
        """A last driver finishes: each trial has its sealed columns, in every copy of it."""
        if missing := sorted(WRITERS.rows.keys() - self.recorded()):
            WRITERS.commit(self.root, missing, None)
        seen: dict[Key, set[str]] = {}
        for part in parquet.parts(self.store.trials("rollback")):
            for row in parquet.read(part).to_pylist():
                seen.setdefault((row["cell_id"], row["draw"]), set()).add(sealed(row))
        assert seen == {one: {sealed(row)} for one, row in WRITERS.rows.items()}
        shutil.rmtree(self.root)


def sealed(row: Row) -> str:
    """The columns that every honest repetition gives again."""
    return repr([row.get(name) for name in SEALED])


def test_any_interleaving_of_commits_kills_and_resumes_ends_in_the_undisturbed_table() -> None:
    found = settings(max_examples=40, stateful_step_count=12, deadline=None, derandomize=True)
    run_state_machine_as_test(Interleaving, settings=found)


def test_a_commit_in_place_would_be_seen_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself is tried: where parts are written under their own names, it finds the torn one."""
    monkeypatch.setattr(parquet, "_link", lambda beside, final: bool(shutil.copy(beside, final)))

    def early(name: str, torn: Path | None = None) -> None:
        if name == "trials:torn" and torn is not None:
            os.truncate(torn, torn.stat().st_size // 2)

    machine = Interleaving()
    monkeypatch.setattr(faults, "point", early)
    rows.commit(
        replace(WRITERS.job, store=str(machine.root)), WRITERS.block(sorted(WRITERS.rows)), [*WRITERS.rows.values()]
    )
    with pytest.raises(AssertionError):
        machine.nothing_committed_is_lost_and_no_part_is_torn()
    shutil.rmtree(machine.root)
