"""Every surface gives the decision of the tensor probe; a surface that does otherwise is caught by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from planting import Row, assert_refused, other_statuses, run

from workers import arms, surfaces
from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Engine, Handle
from workers.engine.null import NullEngine
from workers.errors import OutOfMemory, Unsupported
from workers.session import Mode, SessionApp
from workers.split import split
from workers.surfaces import Held, Restore, Script
from workers.surfaces.base import Read
from workers.surfaces.session_app import AppAborted, AppSession, AppSurface

NAMES = ("session_app", "framework_default", "framework_generate", "langgraph", "langgraph_sqlite")
SHARING = {"stale", "truncate", "checkpoint"}
"""Arms that abort the session and go on with a state of its descent."""
COUNTED = (
    "reply_ids",
    "layer1",
    "cache_length",
    "prefill_tokens",
    "recomputed_tokens",
    "effect_status",
    "parent_intact",
)


@pytest.fixture(scope="module", params=["attack", "control"])
def work(request: pytest.FixtureRequest, make_blocks: Callable[..., list[Block]]) -> Work:
    where = f"where=vehicle == 'tool_return' and strength == 'imperative' and kind == '{request.param}'"
    return make_blocks(where)[0].works[0]


def on(work: Work, surface: str) -> Work:
    """The same trials, where the abort happens elsewhere."""
    return replace(work, episode=replace(work.episode, surface=surfaces.stamp(surfaces.get(surface))))


def test_the_surfaces_are_those_that_the_study_names() -> None:
    assert set(surfaces.names()) == {"tensor_probe", *NAMES}
    for name in surfaces.names():
        assert surfaces.get(surfaces.stamp(surfaces.get(name))).name == name


@pytest.mark.parametrize("isolation", ["class", "strict"])
@pytest.mark.parametrize("name", NAMES)
def test_every_arm_decides_as_on_the_tensor_probe(engine: NullEngine, work: Work, name: str, isolation: str) -> None:
    probe, found = run(engine, work, isolation), run(engine, on(work, name), isolation)
    assert {row["status"] for row in found.values()} == {"done"}
    for arm, row in found.items():
        assert {key: row.get(key) for key in COUNTED} == {key: probe[arm].get(key) for key in COUNTED}, arm


@pytest.mark.parametrize("name", NAMES)
def test_a_branch_on_a_fork_leaves_the_session_as_it_was(engine: NullEngine, work: Work, name: str) -> None:
    bench = Bench(engine, split(engine, work.episode), surfaces.get(name), work.episode)
    state = bench.scoped()
    assert state.ledger == bench.split.committed_ids
    assert bench.decide(state, lambda held: held.ledger, is_one_pass=False) == state.ledger
    assert bench.is_intact()


@pytest.mark.parametrize("name", NAMES)
def test_an_abort_that_is_over_frees_its_copy_of_the_cache(engine: NullEngine, work: Work, name: str) -> None:
    bench = Bench(engine, split(engine, work.episode), surfaces.get(name), work.episode)
    for arm in ("stale", "checkpoint"):
        state = arms.get(arm).prepare(bench)
        bench.take(state)
        bench.decide(state, lambda held: None, is_one_pass=False)
        assert bench.earlier() == [state]
        del state
        assert bench.earlier() == []


@pytest.mark.parametrize("name", NAMES)
def test_running_out_of_memory_where_it_decides_is_no_observation(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(self: NullEngine, handle: Handle, max_new_tokens: int, stream: object = None) -> None:
        raise OutOfMemory("full")

    monkeypatch.setattr(NullEngine, "decode", fail)
    with pytest.raises(OutOfMemory):
        run(engine, on(work, name))


# Broken applications


class Broken(AppSurface):
    """The session app, with its abort done wrongly."""

    def __init__(self, abort: Callable[[AppSession, Restore], Any]) -> None:
        self._abort = abort

    def open(self, engine: Engine, script: Script) -> AppSession:
        session = super().open(engine, script)
        session.abort = lambda restore: self._abort(session, restore)  # type: ignore[method-assign]
        return session


def rows_of(
    monkeypatch: pytest.MonkeyPatch, engine: NullEngine, work: Work, abort: Callable[[AppSession, Restore], Any]
) -> dict[str, Row]:
    monkeypatch.setitem(surfaces._registry(), "session_app", Broken(abort))
    return run(engine, on(work, "session_app"))


def honest(session: AppSession, restore: Restore) -> AppAborted:
    return AppSession.abort(session, restore)


def keeping(session: AppSession, restore: Restore) -> AppAborted:
    """Keeps the cache although told to restore."""
    engine = session.app._engine
    return honest(session, lambda held: engine.fork(held.explored))


def cropping_short(session: AppSession, restore: Restore) -> AppAborted:
    """Crops one token too few."""
    engine = session.app._engine
    return honest(session, lambda held: engine.crop(held.explored, len(held.committed.ledger) + 1))


class Late(AppAborted):
    """Restores once the decision is made."""

    restore: Restore
    held: Held

    def decide(self, read: Callable[[Handle], Read]) -> Read:
        found = super().decide(read)
        self.app._conversations[self.name].state = self.restore(self.held)
        return found


def restoring_late(session: AppSession, restore: Restore) -> AppAborted:
    aborted = keeping(session, restore)
    aborted.__class__ = Late
    aborted.restore, aborted.held = restore, session.held  # type: ignore[attr-defined]
    return aborted


def test_an_honest_application_in_the_same_harness_passes(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_statuses(rows_of(monkeypatch, engine, work, honest)) == {"done"}


@pytest.mark.parametrize("abort", [keeping, cropping_short, restoring_late])
def test_an_application_that_does_not_restore_is_caught(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, abort: Callable[[AppSession, Restore], Any]
) -> None:
    rows = rows_of(monkeypatch, engine, work, abort)
    for arm in ("truncate", "checkpoint"):
        assert_refused(rows[arm], "prefix_differs")
    assert_refused(rows["fresh"], "class_crossed", "prefix_reused", "prefix_differs")
    assert rows["stale"]["status"] == ("invalid" if abort is cropping_short else "done")
    assert other_statuses(rows, "stale", "truncate", "checkpoint", "fresh") == {"done"}


@pytest.mark.parametrize("abort", [keeping, cropping_short])
def test_what_it_goes_on_with_violates_layer_1(engine: NullEngine, work: Work, abort: Any) -> None:
    parts = split(engine, work.episode)
    bench = Bench(engine, parts, Broken(abort), work.episode)
    assert engine.distance(bench.snapshot(), bench.reference) is None


@pytest.mark.parametrize("is_same_conversation", [False, True])
def test_an_application_that_restores_another_sessions_checkpoint(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, is_same_conversation: bool
) -> None:
    """llama.cpp#27148. A checkpoint with the very same tokens is told by its descent."""

    def abort(session: AppSession, restore: Restore) -> AppAborted:
        app, committed = session.app, session.app.transcript("session")
        other = committed if is_same_conversation else replace(committed, ids=committed.ids[::-1])
        if "other" not in app._conversations:
            app.begin("other", other)
            app.explore("other", replace(other, ids=(1, 2)))
        return honest(session, lambda _: restore(app.held("other")))

    checks = ["class_crossed"] if is_same_conversation else ["class_crossed", "prefix_differs"]
    assert_refused(rows_of(monkeypatch, engine, work, abort)["checkpoint"], *checks)


def test_an_application_that_shows_a_restored_state_and_decides_on_another(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Showing(AppAborted):
        shown: Handle
        state = property(lambda self: self.shown)

    def abort(session: AppSession, restore: Restore) -> AppAborted:
        aborted = keeping(session, restore)
        aborted.__class__ = Showing
        aborted.shown = restore(session.held)  # type: ignore[attr-defined]
        return aborted

    rows = rows_of(monkeypatch, engine, work, abort)
    for arm in (*SHARING, "fresh"):
        assert_refused(rows[arm], "state_swapped")
    assert other_statuses(rows, *SHARING, "fresh") == {"done"}


@pytest.mark.parametrize("isolation", ["class", "strict"])
def test_an_application_that_restores_its_checkpoint_where_it_should_start_over(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """Its tokens and its one pass are those of a new state; only what it descends from tells it."""

    def abort(session: AppSession, restore: Restore) -> AppAborted:
        return honest(session, lambda held: session.app._engine.fork(held.committed))

    monkeypatch.setitem(surfaces._registry(), "session_app", Broken(abort))
    assert_refused(run(engine, on(work, "session_app"), isolation)["fresh"], "class_crossed")


def deciding(monkeypatch: pytest.MonkeyPatch, engine: NullEngine, work: Work, decide: Callable[..., Any]) -> None:
    """Every arm that aborts a session is refused by how often its decision is read."""

    def abort(session: AppSession, restore: Restore) -> AppAborted:
        aborted = honest(session, restore)
        aborted.__class__ = type("Deciding", (AppAborted,), {"decide": decide})
        return aborted

    rows = rows_of(monkeypatch, engine, work, abort)
    for arm in (*SHARING, "fresh"):
        assert_refused(rows[arm], "not_decided_once")
    assert other_statuses(rows, *SHARING, "fresh") == {"done"}


def test_an_application_that_decides_twice(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(aborted: AppAborted, read: Callable[[Handle], Read]) -> Read:
        first = AppAborted.decide(aborted, read)
        read(aborted.state)
        return first

    deciding(monkeypatch, engine, work, twice)


def test_an_application_that_decides_nothing(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    deciding(monkeypatch, engine, work, lambda aborted, read: [])


def test_an_application_that_works_on_what_it_holds(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(monkeypatch, engine, work, lambda session, _: honest(session, lambda held: held.explored))
    assert_refused(rows["stale"], "storage_shared")


def test_a_path_that_the_engine_lacks_makes_its_episodes_unsupported(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: NullEngine, path: str) -> NullEngine:
        if path == "explicit":
            return self
        raise Unsupported(f"no way {path}")

    monkeypatch.setattr(NullEngine, "through", refuse)
    assert other_statuses(run(engine, on(work, "framework_default"))) == {"unsupported"}
    assert other_statuses(run(engine, on(work, "langgraph"))) == {"done"}


def test_the_apps_modes_are_the_arms_restores(engine: NullEngine, work: Work) -> None:
    parts = split(engine, work.episode)
    bench = Bench(engine, parts, surfaces.get("session_app"), work.episode)
    modes = {"stale": Mode.KEEP, "fresh": Mode.REPREFILL, "checkpoint": Mode.SNAPSHOT, "truncate": Mode.CROP}
    for arm, mode in modes.items():
        app = SessionApp(engine)
        app.begin("desk", surfaces.Step(work.episode.committed, parts.committed_ids))
        app.explore("desk", surfaces.Step(work.episode.branch, parts.branch_ids))
        app.abort("desk", mode)
        assert engine.digest(app.state("desk")) == engine.digest(arms.get(arm).prepare(bench)), arm
