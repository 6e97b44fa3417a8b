"""Where the real LangGraph's time travel leads, in the ways in which people were led astray."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.errors import EmptyInputError

from workers.engine.null import NullEngine
from workers.session import Branch
from workers.surfaces import Script

from .graphs import CARRIER, Open, both, checkpoint_id, keep, said, texts


@both
def test_a_write_that_comes_after_the_deletion_brings_the_branch_back(
    engine: NullEngine, opened: Open, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """langgraph#7206: the thread is deleted while a node runs, whose checkpoint is written when it ends."""
    session = opened(name)
    thread = session.thread["configurable"]["thread_id"]
    planned = next(old for old in session.graph.get_state_history(session.thread) if old.next == ("explore",))
    honest = Branch.of

    def deleting(*args: Any, **named: Any) -> Branch:
        session.saver.delete_thread(thread)
        assert list(session.graph.get_state_history(session.thread)) == []
        return honest(*args, **named)

    monkeypatch.setattr("workers.surfaces.langgraph.graph.Branch.of", deleting)
    session.run(None, planned.config)
    assert CARRIER in said(session, session.graph.get_state(session.thread))
    session.saver.delete_thread(thread)
    assert session.graph.get_state(session.thread).values == {}


@both
def test_a_deleted_thread_is_neither_resumed_nor_forked(engine: NullEngine, opened: Open, name: str) -> None:
    """langgraph#7206: what still holds a checkpoint of it gets an error, and writes nothing."""
    session = opened(name)
    aborted = session.abort(keep(engine))
    session.saver.delete_thread(session.thread["configurable"]["thread_id"])
    with pytest.raises(EmptyInputError):
        aborted.decide(lambda state: None)
    with pytest.raises(ValueError, match="doesn't exist"):
        session.abort(keep(engine))
    assert list(session.graph.get_state_history(session.thread)) == []


@both
def test_each_step_writes_a_head_of_its_own_which_the_next_step_starts_from(
    engine: NullEngine, opened: Open, name: str
) -> None:
    """langgraph#4987: after time travel the thread's checkpoint stood still while the graph went on."""
    session = opened(name)
    seen = {checkpoint_id(session.before.config)}
    for start in (session.before.config, session.thread, session.before.config):
        if start is session.thread:
            session.graph.update_state(start, {"messages": [HumanMessage("note", id="note")]}, as_node="explore")
        assert session.run(None, start) == ("decide",)
        head = session.graph.get_state(session.thread)
        assert head.next == ()
        assert checkpoint_id(head.config) not in seen
        assert checkpoint_id(head.config) > max(seen)
        seen.add(checkpoint_id(head.config))


@both
def test_a_fork_knows_nothing_of_what_the_thread_did_since(
    engine: NullEngine, script: Script, opened: Open, name: str
) -> None:
    """langgraph#7498, #7038, #8197 and langchain-google#1333: forks came with messages of the later run.

    langgraph#8443, #8551: those of a `DeltaChannel` still do; ours are in none.
    """
    session = opened(name)
    planned = next(old for old in session.graph.get_state_history(session.thread) if old.next == ("explore",))
    session.run(None, session.thread)
    clean, whole = texts(script.committed), texts(script.committed, script.branch)
    for _ in range(2):
        aborted = session.abort(keep(engine))
        assert said(session, aborted.after) == clean
        aborted.decide(lambda state: None)
        assert said(session, session.graph.get_state(session.thread)) == texts(script.committed, script.finalize)
        forked = session.graph.update_state(planned.config, {"session": "session"}, as_node="explore")
        assert said(session, session.graph.get_state(forked)) == clean
    assert said(session, session.graph.get_state(session.before.config)) == whole
    assert not any(isinstance(channel, DeltaChannel) for channel in session.graph.channels.values())


@both
def test_a_replay_stops_at_the_interrupt_again_and_is_resumed_from_there(
    engine: NullEngine, script: Script, opened: Open, name: str
) -> None:
    """langgraph#7498, #7038: a replay took the first run's answer at an interrupt, or its last checkpoint."""
    session = opened(name)
    session.run(None, session.thread)
    planned = next(old for old in session.graph.get_state_history(session.thread) if old.next == ("explore",))
    assert session.run(None, planned.config) == ("explore",)
    stopped = session.graph.get_state(session.thread)
    assert (stopped.next, said(session, stopped)) == (("decide",), texts(script.committed, script.branch))
    assert session.run(None, session.thread) == ("decide",)
    resumed = session.graph.get_state(session.thread)
    assert said(session, resumed) == texts(script.committed, script.branch, script.finalize)


def test_no_node_is_a_graph_of_its_own(opened: Open) -> None:
    """langgraph#8458: travel into a subgraph ran it from its start; the nodes that ran are compared by name."""
    assert list(opened("langgraph").graph.get_subgraphs(recurse=True)) == []
