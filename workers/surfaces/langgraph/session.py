"""A graph's session: it ran up to the interrupt, and each abort forks its thread and its cache from there."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Collection, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import RemoveMessage
from langgraph.types import StateSnapshot

from workers.errors import IsolationError
from workers.session import Branch
from workers.surfaces.base import Read, Restore, Script
from workers.surfaces.langgraph import checkpoints
from workers.surfaces.langgraph.graph import Caches, Nodes, compiled, message_ids

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from workers.engine import Engine, Handle

_KEY = "session"


class GraphSession:
    """A thread stopped before decide, with the branch in its messages and in the cache behind it.

    Attributes:
        nodes: what ran, and the caches by session key.
        file: the SQLite file, where the checkpoints are on disk.
        before: the checkpoint from which every abort forks.
    """

    def __init__(self, engine: Engine, script: Script, *, on_disk: bool) -> None:
        self.script = script
        self.nodes = Nodes(engine, script, Caches())
        # The graph refers to itself in places, so that its caches would wait for the garbage collector.
        weakref.finalize(self, self.nodes.caches.clear)
        self.file: Path | None = None
        if on_disk:
            self.saver, self.file = checkpoints.on_disk(self)
        else:
            self.saver = checkpoints.in_memory()
        self.graph = compiled(self.nodes, self.saver)
        self.thread: RunnableConfig = {"configurable": {"thread_id": uuid.uuid4().hex}}
        self._numbers = count(1)
        self.run({"messages": [], "session": _KEY}, self.thread)
        self.before = self.graph.get_state(self.thread)
        self._check_before()

    @property
    def held(self) -> Branch:
        """What the store behind the graph holds under the session's key."""
        return self.nodes.caches.branches[_KEY]

    def abort(self, restore: Restore) -> GraphAborted:
        """Fork the thread without the branch's messages; in the same handler, bind a restored cache to its key."""
        key = f"{_KEY}-{next(self._numbers)}"
        aborted = GraphAborted(self, key)
        self.nodes.caches.states[key] = restore(self.held)
        aborted.after = self.drop_branch(key)
        self._check_after(aborted.after)
        return aborted

    def drop_branch(self, key: str) -> StateSnapshot:
        """LangGraph's own abort: a new checkpoint on top of the one before it, which is left as it was."""
        removals = [RemoveMessage(id=name) for name in message_ids("branch", self.script.branch.turns)]
        values = {"messages": removals, "session": key}
        with checkpoints.untraced():
            return self.graph.get_state(self.graph.update_state(self.before.config, values, as_node="explore"))

    def run(self, values: Any, config: RunnableConfig) -> tuple[str, ...]:
        """Start the graph with `values`, or resume it with None; the nodes that ran, in order."""
        self.nodes.ran.clear()
        with checkpoints.untraced():
            self.graph.invoke(values, config, durability="sync")
        return tuple(self.nodes.ran)

    def _check_before(self) -> None:
        _check_ran(self.nodes.ran, "plan", "explore")
        turns = self.script.branch.turns
        if not turns or len(list(self._of_branch(self.before))) != len(turns):
            raise IsolationError("checkpoint_lacks_branch", "the checkpoint before the abort does not hold the branch")

    def _check_after(self, after: StateSnapshot) -> None:
        if next(self._of_branch(after), None) is not None:
            raise IsolationError("checkpoint_keeps_branch", "the checkpoint after the abort holds the branch")
        if _checkpoint(after.parent_config) != _checkpoint(self.before.config):
            raise IsolationError("checkpoint_parent", "the abort does not fork from the checkpoint before it")
        if after.next != ("decide",):
            raise IsolationError("nodes_differ", f"after the abort comes {', '.join(after.next) or 'nothing'}")

    def _of_branch(self, snapshot: StateSnapshot) -> Iterator[str]:
        """The messages of a checkpoint that are the branch's, by id or by what they say."""
        names = message_ids("branch", self.script.branch.turns)
        committed, branch = ({turn.text for turn in step.turns} for step in (self.script.committed, self.script.branch))
        for message in snapshot.values["messages"]:
            if message.id in names or message.text in branch - committed:
                yield message.id


class GraphAborted:
    """A forked thread, whose key leads to a cache of its own; both are let go with this.

    Attributes:
        after: the checkpoint that the abort wrote.
    """

    after: StateSnapshot

    def __init__(self, session: GraphSession, key: str) -> None:
        self._session, self._key = session, key
        weakref.finalize(self, session.nodes.caches.states.pop, key, None)

    @property
    def state(self) -> Handle:
        """The cache that the key in the checkpoint leads to."""
        return self._session.nodes.caches.states[self.after.values["session"]]

    def decide(self, read: Callable[[Handle], Read]) -> Read:
        """Resume the fork: its decide node, and no other, feeds the finalize step and has the decision read."""
        nodes = self._session.nodes
        nodes.read = read
        try:
            _check_ran(self._session.run(None, self.after.config), "decide")
            return cast("Read", nodes.found)
        finally:
            nodes.read = nodes.found = None


def _check_ran(ran: Collection[str], *expected: str) -> None:
    if tuple(ran) != expected:
        raise IsolationError("nodes_differ", f"the nodes that ran are {', '.join(ran)}, not {', '.join(expected)}")


def _checkpoint(config: RunnableConfig | None) -> str | None:
    return (config or {}).get("configurable", {}).get("checkpoint_id")
