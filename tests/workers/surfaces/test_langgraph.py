"""The real LangGraph: time travel mends the transcript and not the cache behind it, and its history forgets nothing."""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from planting import assert_refused, other_statuses, run

from workers import surfaces
from workers.block import Work
from workers.engine.null import NullEngine
from workers.errors import IsolationError
from workers.surfaces import Script, Step
from workers.surfaces.langgraph import PIP_LINE, open_session
from workers.surfaces.langgraph.session import GraphSession

from .graphs import CARRIER, Open, both, keep, said


def on(work: Work, surface: str) -> Work:
    return replace(work, episode=replace(work.episode, surface=surfaces.stamp(surfaces.get(surface))))


# What the checkpoints hold


@both
def test_every_abort_forks_from_the_checkpoint_that_holds_the_branch(
    engine: NullEngine, opened: Open, name: str
) -> None:
    session = opened(name)
    aborts = [session.abort(keep(engine)) for _ in range(3)]
    assert CARRIER in said(session, session.before)
    for aborted in aborts:
        assert CARRIER not in said(session, aborted.after)
        assert aborted.after.parent_config == session.before.config
    # Resumed in any order, each decides on its own fork.
    for aborted in reversed(aborts):
        assert aborted.decide(lambda state: session.nodes.ran) == ["decide"]


@both
def test_the_cache_behind_the_graph_stays_stale_until_the_same_handler_restores_it(
    engine: NullEngine, script: Script, opened: Open, name: str
) -> None:
    session, reference = opened(name), engine.prefill(script.committed.ids)
    kept, restored = session.abort(keep(engine)), session.abort(lambda held: engine.fork(held.committed))
    assert said(session, kept.after) == said(session, restored.after)
    assert engine.distance(kept.state, reference) is None
    assert engine.distance(restored.state, reference) == 0.0
    assert CARRIER in kept.decide(lambda state: engine.decode(state, 40).text)
    assert CARRIER not in restored.decide(lambda state: engine.decode(state, 40).text)


@both
def test_the_librarys_own_abort_does_not_reach_the_cache(engine: NullEngine, opened: Open, name: str) -> None:
    """A message is removed and nothing else: the same key leads to the same cache."""
    session = opened(name)
    after = session.drop_branch("session")
    session.nodes.read = lambda state: engine.decode(state, 40).text
    session.run(None, after.config)
    assert CARRIER not in said(session, session.graph.get_state(session.thread))
    assert CARRIER in session.nodes.found


@both
def test_the_state_names_a_session_and_holds_no_cache(opened: Open, name: str) -> None:
    session = opened(name)
    assert set(session.before.values) == {"messages", "session"}
    assert session.before.values["session"] == "session"


@both
def test_the_nodes_run_in_the_callers_thread(opened: Open, name: str) -> None:
    """Where an interrupt from the keyboard reaches them, and where torch's thread-local modes are the caller's."""
    session = opened(name)
    aborted = session.abort(lambda held: held.committed)
    assert aborted.decide(lambda state: threading.current_thread()) is threading.current_thread()


# History is append-only


@both
def test_an_old_checkpoint_brings_the_branch_back(engine: NullEngine, opened: Open, name: str) -> None:
    session = opened(name)
    session.abort(lambda held: engine.fork(held.committed)).decide(lambda state: None)
    assert CARRIER not in said(session, session.graph.get_state(session.thread))
    session.run(None, session.before.config)
    head = session.graph.get_state(session.thread)
    assert head.next == ()
    assert CARRIER in said(session, head)


@both
def test_replay_runs_the_nodes_again_and_feeds_the_branch_again(
    engine: NullEngine, script: Script, opened: Open, name: str
) -> None:
    """langchain-academy#40: what a node did to the world outside is done twice."""
    session = opened(name)
    deliveries: Counter[str] = Counter()
    session.nodes.read = lambda state: deliveries.update(["delivery"])
    session.run(None, session.drop_branch("session").config)
    planned = next(old for old in session.graph.get_state_history(session.thread) if old.next == ("explore",))
    assert session.run(None, planned.config) == ("explore",)
    assert session.run(None, session.thread) == ("decide",)
    assert deliveries["delivery"] == 2
    twice = script.branch.ids + script.finalize.ids + script.branch.ids + script.finalize.ids
    assert session.nodes.caches.states["session"].ledger == script.committed.ids + twice


@both
def test_only_deleting_the_thread_empties_its_history(engine: NullEngine, opened: Open, name: str) -> None:
    session = opened(name)
    session.abort(keep(engine)).decide(lambda state: None)
    assert any(CARRIER in said(session, old) for old in session.graph.get_state_history(session.thread) if old.values)
    session.saver.delete_thread(session.thread["configurable"]["thread_id"])
    assert list(session.graph.get_state_history(session.thread)) == []


def test_the_file_holds_the_carrier_after_the_abort(engine: NullEngine, opened: Open) -> None:
    session = opened("langgraph_sqlite")
    session.abort(lambda held: engine.fork(held.committed)).decide(lambda state: None)
    assert session.file is not None
    stored = b"".join(path.read_bytes() for path in session.file.parent.iterdir())
    assert CARRIER.encode() in stored


# Nothing is left behind, and nothing leaves the machine


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_file_goes_with_its_session_without_waiting_for_the_collector(opened: Open, temporary: Path) -> None:
    gc.collect()
    gc.disable()
    try:
        session = opened("langgraph_sqlite")
        caches, thread = session.nodes.caches, session.thread
        assert opened("langgraph_sqlite").thread != thread
        assert len(list(temporary.iterdir())) == 1
        del session
        assert list(temporary.iterdir()) == []
        assert (caches.states, caches.branches) == ({}, {})
    finally:
        gc.enable()


def test_a_graph_that_fails_leaves_no_file(
    engine: NullEngine, work: Work, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.surfaces.langgraph.graph.Branch.of", lambda *args, **named: 1 / 0)
    rows = run(engine, on(work, "langgraph_sqlite"))
    assert rows["stale"]["error"] == "ZeroDivisionError: division by zero"
    assert other_statuses(rows, "stale", "fresh", "truncate", "checkpoint") == {"done"}
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_no_message_is_sent_to_langsmith(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain_core.tracers.context import _tracing_v2_is_enabled

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    seen: list[bool] = []
    monkeypatch.setattr(
        "workers.surfaces.langgraph.graph.Branch.of", lambda *args, **named: seen.append(_tracing_v2_is_enabled())
    )
    opened("langgraph")
    assert _tracing_v2_is_enabled()
    assert seen == [False]


def test_without_the_library_its_cells_are_unsupported_and_say_what_to_install(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "workers.surfaces.langgraph.session")
    monkeypatch.setitem(sys.modules, "langgraph.types", None)
    rows = run(engine, on(work, "langgraph"))
    assert rows["stale"]["status"] == rows["checkpoint"]["status"] == "unsupported"
    assert PIP_LINE in rows["stale"]["error"]
    assert rows["cold"]["status"] == "done"


# Broken graphs


def planted(monkeypatch: pytest.MonkeyPatch, name: str, method: Callable[..., Any]) -> None:
    monkeypatch.setattr(GraphSession, name, method)


def test_an_abort_that_removes_no_message(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.surfaces.langgraph.session.RemoveMessage", lambda id: HumanMessage("kept", id="x"))
    rows = run(engine, on(work, "langgraph"))
    for arm in ("stale", "fresh", "truncate", "checkpoint"):
        assert_refused(rows[arm], "checkpoint_keeps_branch")
    assert other_statuses(rows, "stale", "fresh", "truncate", "checkpoint") == {"done"}


def test_an_abort_that_keeps_the_message_under_another_id(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = GraphSession.drop_branch

    def renaming(self: GraphSession, key: str) -> Any:
        said = HumanMessage(work.episode.branch[0].text, id="note")
        return honest(self, key)._replace(values={"messages": [said], "session": key})

    planted(monkeypatch, "drop_branch", renaming)
    assert_refused(run(engine, on(work, "langgraph"))["stale"], "checkpoint_keeps_branch")


def test_an_abort_that_forks_from_another_checkpoint(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = GraphSession.drop_branch

    def twice(self: GraphSession, key: str) -> Any:
        first = honest(self, key)
        return self.graph.get_state(self.graph.update_state(first.config, {"session": key}, as_node="explore"))

    planted(monkeypatch, "drop_branch", twice)
    assert_refused(run(engine, on(work, "langgraph"))["stale"], "checkpoint_parent")


def test_an_abort_that_goes_back_too_far(engine: NullEngine, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_far(self: GraphSession, key: str) -> Any:
        values = {"messages": [RemoveMessage(id="branch-0")], "session": key}
        return self.graph.get_state(self.graph.update_state(self.before.config, values, as_node="plan"))

    planted(monkeypatch, "drop_branch", too_far)
    session = opened("langgraph")
    with pytest.raises(IsolationError, match="nodes_differ: after the abort comes explore"):
        session.abort(keep(engine))


def test_a_resume_from_the_beginning(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GraphSession.run
    planted(
        monkeypatch, "run", lambda self, values, config: honest(self, {"messages": [], "session": "session"}, config)
    )
    assert_refused(run(engine, on(work, "langgraph"))["stale"], "nodes_differ")


def test_a_thread_without_the_branch(engine: NullEngine, script: Script) -> None:
    with pytest.raises(IsolationError, match="checkpoint_lacks_branch"):
        open_session(engine, replace(script, branch=Step((), script.branch.ids)), on_disk=False)
