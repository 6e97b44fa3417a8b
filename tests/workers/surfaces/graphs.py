"""Words about the sessions of a graph, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workers.engine import Handle
from workers.engine.null import NullEngine
from workers.surfaces import Held, Step
from workers.surfaces.langgraph.session import GraphSession

CARRIER = "red-canary"
both = pytest.mark.parametrize("name", ["langgraph", "langgraph_sqlite"])
Open = Callable[..., GraphSession]


def keep(engine: NullEngine) -> Callable[[Held], Handle]:
    return lambda held: engine.fork(held.explored)


def texts(*steps: Step) -> str:
    return "\n".join(turn.text for step in steps for turn in step.turns)


def checkpoint_id(config: Any) -> str:
    found: str = config["configurable"]["checkpoint_id"]
    return found


def said(session: GraphSession, snapshot: Any) -> str:
    return "\n".join(message.text for message in snapshot.values["messages"])
