"""An episode through its arms: what is done is an observation, and no failed trial becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from planting import plant, run

from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Handle
from workers.engine.null import NullEngine, NullHandle
from workers.errors import OutOfMemory, Unsupported
from workers.spec import ModelSpec
from workers.studies import get


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'user_turn' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


def test_every_arm_is_done_and_the_susceptible_engine_flips_where_it_should(engine: NullEngine, work: Work) -> None:
    found = run(engine, work)
    assert {row["status"] for row in found.values()} == {"done"}
    assert {arm for arm, row in found.items() if row["effect_status"] == "violation"} == {"stale", "text_present"}
    assert {arm: row["layer1"] for arm, row in found.items()} == {
        "stale": "violated",
        "fresh": "intact",
        "cold": "reference",
        "text_present": "violated",
        "truncate": "intact",
        "checkpoint": "intact",
    }


def test_class_and_strict_isolation_give_the_same_sealed_columns(engine: NullEngine, work: Work) -> None:
    sealed = {column.name for column in (*_core(), *get("rollback").columns) if column.is_sealed}
    shared, strict = run(engine, work), run(engine, work, "strict")
    for arm, row in shared.items():
        assert {k: v for k, v in row.items() if k in sealed} == {k: v for k, v in strict[arm].items() if k in sealed}


def _core() -> tuple[Any, ...]:
    from workers.schema import CORE

    return CORE


def test_running_out_of_memory_is_no_observation(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(bench: Bench) -> Handle:
        raise OutOfMemory("full")

    plant(monkeypatch, "fresh", fail)
    with pytest.raises(OutOfMemory):
        run(engine, work)


def test_what_a_cache_cannot_do_is_unsupported_not_safe(scripted: ModelSpec, work: Work) -> None:
    class Uncroppable(NullEngine):
        def crop(self, handle: Handle, length: int) -> Handle:
            raise Unsupported("recurrent state cannot be rolled back")

    rows = run(Uncroppable(scripted), work)
    assert (rows["truncate"]["status"], rows["truncate"]["layer1"]) == ("unsupported", "unsupported")
    assert "effect_status" not in rows["truncate"]
    assert rows["stale"]["status"] == "done"


def test_an_exception_in_one_arm_is_a_row_and_the_other_arms_go_on(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ray#59194: one bad row must not fail the batch.

    tt-inference-server#2214, inspect#3163: what was done before the failure is kept.
    """

    def fail(bench: Bench) -> Handle:
        raise ZeroDivisionError("kaboom\nsecond line")

    plant(monkeypatch, "fresh", fail)
    rows = run(engine, work)
    assert rows["fresh"]["status"] == "error"
    assert rows["fresh"]["error"] == "ZeroDivisionError: kaboom second line"
    assert "in fail" in rows["fresh"]["traceback"]
    assert {row["status"] for arm, row in rows.items() if arm != "fresh"} == {"done"}


def test_fresh_shares_nothing_with_the_session(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN §4.6: fresh is a re-prefill and must not quietly become checkpoint."""
    prefilled: list[Handle] = []
    original = NullEngine.prefill

    def prefill(self: NullEngine, ids: Sequence[int], *, records_past: bool = False) -> Handle:
        prefilled.append(original(self, ids, records_past=records_past))
        return prefilled[-1]

    monkeypatch.setattr(NullEngine, "prefill", prefill)
    rows = run(engine, work)
    # session, Layer-1 reference, fresh, cold, text_present: five passes, none of them shared between classes
    assert len(prefilled) == len({id(handle) for handle in prefilled}) == 5
    assert rows["fresh"]["recomputed_tokens"] == len(rows["fresh"]["committed_ids"])
    assert rows["checkpoint"]["recomputed_tokens"] == 0


def test_null_handles_are_distinct_objects(engine: NullEngine) -> None:
    handle = engine.prefill([1, 2])
    copy = engine.fork(handle)
    engine.feed(copy, [3])
    assert isinstance(handle, NullHandle)
    assert handle.ledger == (1, 2)
