"""The graph: plan, explore, and an interrupt before decide. Messages are in its state, caches are behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ChatMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from workers.session import Branch

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from workers.engine import Engine, Handle
    from workers.episode import Message
    from workers.surfaces.base import Script

    Graph = CompiledStateGraph[Any, Any, Any, Any]


class State(TypedDict):
    """What the checkpointer stores. A cache in here would be pickled; the key by which one is found is enough."""

    messages: Annotated[list[AnyMessage], add_messages]
    session: str


@dataclass
class Caches:
    """The KV store behind the graph, by session key; time travel does not reach it."""

    states: dict[str, Handle] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)

    def clear(self) -> None:
        """Free every cache."""
        self.states.clear()
        self.branches.clear()


@dataclass
class Nodes:
    """What the nodes do: say a step's turns in the state, and feed its ids to the session that the key leads to.

    Attributes:
        read: what reads the decision once the finalize step is fed, if anybody does.
        found: what it read.
        ran: the nodes that ran since somebody last cleared this, in order.
    """

    engine: Engine
    script: Script
    caches: Caches
    read: Callable[[Handle], Any] | None = None
    found: Any = None
    ran: list[str] = field(default_factory=list)

    def plan(self, state: State) -> dict[str, Any]:
        """Begin the session."""
        self.ran.append("plan")
        step = self.script.committed
        begun = self.engine.prefill(step.ids, records_past=self.script.records_past)
        self.caches.states[state["session"]] = begun
        return {"messages": messages("committed", step.turns)}

    def explore(self, state: State) -> dict[str, Any]:
        """Take the branch."""
        self.ran.append("explore")
        key, step = state["session"], self.script.branch
        branch = Branch.of(self.engine, self.caches.states[key], step.ids, on_fork=self.script.on_fork)
        self.caches.branches[key] = branch
        return {"messages": messages("branch", step.turns)}

    def decide(self, state: State) -> dict[str, Any]:
        """Feed the finalize step and have the decision read."""
        self.ran.append("decide")
        step, cache = self.script.finalize, self.caches.states[state["session"]]
        self.engine.feed(cache, step.ids)
        self.found = self.read(cache) if self.read else None
        return {"messages": messages("finalize", step.turns)}


def compiled(nodes: Nodes, saver: BaseCheckpointSaver[Any]) -> Graph:
    """The graph over those nodes, with a checkpointer."""
    graph = StateGraph(State)
    graph.add_node("plan", nodes.plan)
    graph.add_node("explore", nodes.explore)
    graph.add_node("decide", nodes.decide)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "explore")
    graph.add_edge("explore", "decide")
    graph.add_edge("decide", END)
    return graph.compile(checkpointer=saver, interrupt_before=["decide"])


def message_ids(step: str, turns: Sequence[Message]) -> list[str]:
    """Our own ids, by which a message can be removed."""
    return [f"{step}-{at}" for at in range(len(turns))]


def messages(step: str, turns: Sequence[Message]) -> list[AnyMessage]:
    """Turns as LangChain messages. A tool's return answers no recorded call, so it is a message of that role."""
    named = zip(message_ids(step, turns), turns, strict=True)
    return [_message(identity, turn) for identity, turn in named]


def _message(identity: str, turn: Message) -> AnyMessage:
    match turn.role:
        case "system":
            return SystemMessage(turn.text, id=identity)
        case "user":
            return HumanMessage(turn.text, id=identity)
        case "assistant":
            return AIMessage(turn.text, id=identity)
    return ChatMessage(content=turn.text, role=turn.role, id=identity)
