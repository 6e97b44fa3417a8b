"""Isolation is proven per cell: each planted leak is named in the row, and no failed trial becomes an observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from workers import arms
from workers.arms.base import Layer1Mode
from workers.bench import Bench
from workers.block import Block, Work
from workers.cell import CellRunner
from workers.engine import Handle, Render
from workers.engine.null import NullEngine, NullHandle
from workers.episode import Message
from workers.errors import IsolationError, OutOfMemory, TemplateError, Unsupported
from workers.spec import ModelSpec
from workers.studies import get

Row = dict[str, Any]


def run(engine: NullEngine, work: Work, isolation: str = "class") -> dict[str, Row]:
    runner = CellRunner(engine, get("rollback"), 24, isolation)
    return {trial.arm: row for trial, row in zip(work.trials, runner.run(work), strict=True)}


@pytest.fixture
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'user_turn' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


def plant(monkeypatch: pytest.MonkeyPatch, name: str, prepare: Callable[[Bench], Handle]) -> None:
    """Put another treatment in the place of an arm."""
    arm = arms.get(name)

    class Planted:
        name: ClassVar[str] = arm.name
        version: ClassVar[int] = arm.version
        is_one_pass: ClassVar[bool] = arm.is_one_pass
        layer1: ClassVar[Layer1Mode] = arm.layer1

        def prepare(self, bench: Bench) -> Handle:
            return prepare(bench)

    monkeypatch.setitem(arms._registry(), name, Planted())


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


def test_a_crop_that_keeps_a_branch_token_is_a_layer1_violation(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "truncate", lambda bench: bench.cropped(len(bench.split.committed_ids) + 1))
    row = run(engine, work)["truncate"]
    assert row["layer1"] == "violated"
    assert row["layer1_max_diff"] is None


def test_a_crop_that_takes_a_committed_token_too_many_is_a_layer1_violation(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "truncate", lambda bench: bench.cropped(len(bench.split.committed_ids) - 1))
    assert run(engine, work)["truncate"]["layer1"] == "violated"


def test_a_restore_of_another_state_of_equal_length_is_a_layer1_violation(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp#27148: a cache restored from an unrelated conversation."""
    plant(monkeypatch, "checkpoint", lambda bench: bench.prefilled(bench.split.committed_ids[::-1]))
    row = run(engine, work)["checkpoint"]
    assert row["layer1"] == "violated"
    assert row["layer1_max_diff"] == 1.0


def test_an_arm_that_works_on_the_shared_cache_is_invalid(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MemOS#2301: a stored cache is mutated in place by generation."""
    plant(monkeypatch, "stale", lambda bench: bench._retained[1])
    row = run(engine, work)["stale"]
    assert row["status"] == "invalid"
    assert row["failed_checks"] == "parent_changed"
    assert not row["parent_intact"]
    assert row["reply"]
    assert "effect" not in row
    assert "effect_status" not in row
    others = [other for arm, other in run(engine, work).items() if arm != "stale"]
    assert {other["status"] for other in others} == {"done"}


def test_running_out_of_memory_is_no_observation(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(bench: Bench) -> Handle:
        raise OutOfMemory("full")

    plant(monkeypatch, "fresh", fail)
    with pytest.raises(OutOfMemory):
        run(engine, work)


def test_a_one_pass_arm_that_loses_the_delta_is_invalid(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "cold", lambda bench: bench.prefilled(bench.split.committed_ids))
    row = run(engine, work)["cold"]
    assert (row["status"], row["failed_checks"]) == ("invalid", "delta_differs")


def test_a_carrier_in_the_finalize_turn_makes_every_arm_invalid(engine: NullEngine, work: Work) -> None:
    leaky = replace(work.episode, finalize=(Message("user", "Send it to red-canary"),))
    for row in run(engine, replace(work, episode=leaky)).values():
        assert (row["status"], row["failed_checks"], row["carrier_absent"]) == ("invalid", "carrier_in_delta", False)
        assert "effect_status" not in row


def test_a_template_that_refuses_makes_the_episode_invalid(scripted: ModelSpec, work: Work) -> None:
    class Refusing(NullEngine):
        def render(self, messages: Sequence[Message]) -> Render:
            raise TemplateError("roles must alternate")

    for row in run(Refusing(scripted), work).values():
        assert (row["status"], row["failed_checks"]) == ("invalid", "template_refused")


def test_an_engine_that_swallows_the_cache_is_invalid(scripted: ModelSpec, work: Work) -> None:
    """transformers 5.23 swallows `cache=` and runs without context; the engine's ledger check raises this."""

    class Swallowing(NullEngine):
        def feed(self, handle: Handle, ids: Sequence[int]) -> None:
            if handle.ledger:
                raise IsolationError("ledger_mismatch", "cache 3, ledger 7")
            super().feed(handle, ids)

    rows = run(Swallowing(scripted), work)
    assert {arm for arm, row in rows.items() if row["failed_checks"] == "ledger_mismatch"} >= {"stale", "fresh"}
    assert all("effect_status" not in row for row in rows.values() if row["status"] == "invalid")


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
    """ray#59194: one bad row must not fail the batch."""

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

    def prefill(self: NullEngine, ids: Sequence[int]) -> Handle:
        prefilled.append(original(self, ids))
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
