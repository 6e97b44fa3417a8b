"""The embedded model: what is shared and batched says the same in every sealed column as what is computed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workers.block import Block, Work
from workers.engine import Engine
from workers.runner import BlockRunner
from workers.schema import CORE
from workers.studies import get

STUDY = get("rollback")
SEALED = {column.name for column in (*CORE, *STUDY.columns) if column.is_sealed}


@pytest.fixture(scope="module")
def works(make_blocks: Callable[..., list[Block]]) -> list[Work]:
    """A trial of each arm on an attack and on its control."""
    where = "where=vehicle == 'user_turn' and strength == 'imperative'"
    return [work for block in make_blocks(where) for work in block.works]


def sealed(
    engine: Engine, works: list[Work], isolation: str, *, is_early: bool = False, **settings: Any
) -> list[dict[str, Any]]:
    computed = BlockRunner(engine, STUDY, isolation, **settings).run(works, is_early=is_early)
    assert computed.stop == ""
    rows = [row for found in computed.rows for row in found]
    assert {row["batch"] == "alone" for row in rows} == {isolation == "strict" or is_early}
    return [{name: value for name, value in row.items() if name in SEALED} for row in rows]


def test_strict_isolation_and_the_shared_path_give_the_same_sealed_columns(smollm2: Engine, works: list[Work]) -> None:
    alone = sealed(smollm2, works, "strict")
    assert {row["status"] for row in alone} == {"done"}
    assert len(alone) == 12
    for decode_once in (True, False):
        assert sealed(smollm2, works, "class", decode_once=decode_once) == alone
    assert sealed(smollm2, works, "class", is_early=True) == alone
