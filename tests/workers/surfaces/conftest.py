"""One attack on the null engine, and the graph's session that has explored its branch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workers.block import Block, Work
from workers.engine.null import NullEngine
from workers.split import split
from workers.surfaces import Script, Step
from workers.surfaces.langgraph import open_session

from .graphs import Open


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'tool_return' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


@pytest.fixture
def script(engine: NullEngine, work: Work) -> Script:
    episode, parts = work.episode, split(engine, work.episode)
    return Script(
        Step(episode.committed, parts.committed_ids),
        Step(episode.branch, parts.branch_ids),
        Step(episode.finalize, parts.delta_ids),
    )


@pytest.fixture
def opened(engine: NullEngine, script: Script) -> Open:
    """Surface → a session of the attack, before its abort."""
    return lambda name: open_session(engine, script, on_disk=name == "langgraph_sqlite")
