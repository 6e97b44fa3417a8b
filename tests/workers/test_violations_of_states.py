"""Violations in the states that arms decide on, planted on the null engine and read from the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from planting import assert_all_refused, assert_refused, other_statuses, plant, run

from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Handle
from workers.engine.null import NullEngine, NullHandle
from workers.errors import IsolationError
from workers.spec import ModelSpec

Prepare = Callable[[Bench], Handle]
TWO_STEP = {"stale", "fresh", "truncate", "checkpoint"}


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'tool_return' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


# Memory


SHARED: dict[str, Prepare] = {
    "session": lambda bench: bench._retained[1],
    "snapshot": lambda bench: bench._retained[0],
    "view of the session": lambda bench: replace(bench._retained[1]),  # type: ignore[type-var]
}


@pytest.mark.parametrize("prepare", SHARED.values(), ids=SHARED)
def test_an_arm_that_works_on_the_shared_cache(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, prepare: Prepare
) -> None:
    """MemOS#2301: a stored cache is mutated in place by generation."""
    arm = "checkpoint" if prepare is SHARED["snapshot"] else "stale"
    plant(monkeypatch, arm, prepare)
    rows = run(engine, work)
    assert_refused(rows[arm], "storage_shared")
    assert rows[arm]["parent_intact"]
    assert other_statuses(rows, arm) == {"done"}


def test_an_arm_that_works_on_the_layer_1_reference(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "fresh", lambda bench: bench.reference)
    assert_refused(run(engine, work)["fresh"], "storage_shared", "class_crossed")


def test_an_arm_that_works_on_the_state_of_another_arm(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Handle] = []

    def prepare(bench: Bench) -> Handle:
        kept.append(bench.snapshot())
        return kept[0]

    for arm in ("checkpoint", "truncate"):
        plant(monkeypatch, arm, prepare)
    rows = run(engine, work)
    assert rows["truncate"]["status"] == "done"
    assert_refused(rows["checkpoint"], "storage_shared", "prefix_differs")


def test_an_arm_that_changes_its_parent(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(bench: Bench) -> Handle:
        state = bench.explored()
        bench.engine.feed(bench._retained[1], (1,))
        return state

    plant(monkeypatch, "stale", prepare)
    rows = run(engine, work)
    assert_refused(rows["stale"], "parent_changed")
    assert not rows["stale"]["parent_intact"]
    assert other_statuses(rows, "stale") == {"done"}


@pytest.mark.parametrize("failure", [ZeroDivisionError("kaboom"), IsolationError("ledger_mismatch", "2 of 3")])
def test_an_arm_that_changes_its_parent_and_fails_spoils_no_other(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def prepare(bench: Bench) -> Handle:
        bench.engine.feed(bench._retained[0], (1,))
        raise failure

    plant(monkeypatch, "stale", prepare)
    rows = run(engine, work)
    if isinstance(failure, IsolationError):
        assert_refused(rows["stale"], "ledger_mismatch", "parent_changed")
    assert other_statuses(rows, "stale") == {"done"}


# The class


def feeding(state: Handle, ids: Sequence[int], bench: Bench) -> Handle:
    bench.engine.feed(state, ids)
    return state


CROSSINGS: dict[str, tuple[str, Prepare]] = {
    "fresh becomes checkpoint": ("fresh", lambda bench: bench.snapshot()),
    "fresh becomes truncate": ("fresh", lambda bench: bench.cropped(len(bench.split.committed_ids))),
    "fresh copies the reference": ("fresh", lambda bench: bench.engine.fork(bench.reference)),
    "checkpoint copies the reference": ("checkpoint", lambda bench: bench.engine.fork(bench.reference)),
    "checkpoint becomes fresh": ("checkpoint", lambda bench: bench.prefilled(bench.split.committed_ids)),
    "stale is built anew": ("stale", lambda bench: bench.prefilled(bench.split.branched_ids)),
}


@pytest.mark.parametrize(("arm", "prepare"), CROSSINGS.values(), ids=CROSSINGS)
def test_a_state_of_another_class(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, arm: str, prepare: Prepare
) -> None:
    """DESIGN §4.6: fresh is a re-prefill and must not quietly become checkpoint."""
    plant(monkeypatch, arm, prepare)
    rows = run(engine, work)
    assert "class_crossed" in rows[arm]["failed_checks"].split(",")
    assert_refused(rows[arm], *rows[arm]["failed_checks"].split(","))
    assert other_statuses(rows, arm) == {"done"}


def test_a_one_pass_arm_that_goes_on_from_a_copy_of_another(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Handle] = []

    def fresh(bench: Bench) -> Handle:
        kept.append(bench.prefilled(bench.split.committed_ids))
        return bench.engine.fork(kept[0])

    plant(monkeypatch, "fresh", fresh)
    plant(monkeypatch, "cold", lambda bench: feeding(bench.engine.fork(kept[0]), bench.split.delta_ids, bench))
    rows = run(engine, work)
    assert rows["fresh"]["status"] == "done"
    assert_refused(rows["cold"], "class_crossed", "prefix_reused")


def test_a_one_pass_arm_that_takes_two(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(bench: Bench) -> Handle:
        return feeding(bench.prefilled(bench.split.committed_ids), bench.split.delta_ids, bench)

    plant(monkeypatch, "cold", prepare)
    assert_refused(run(engine, work)["cold"], "prefix_reused")


def test_a_one_pass_arm_that_is_cut_from_a_longer_pass(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(bench: Bench) -> Handle:
        ids = bench.split.committed_ids + bench.split.delta_ids
        return bench.engine.crop(bench.prefilled((*ids, 1)), len(ids))

    plant(monkeypatch, "cold", prepare)
    assert_refused(run(engine, work)["cold"], "prefix_reused")


def test_an_engine_that_caches_prefixes(scripted: ModelSpec, work: Work) -> None:
    """What vLLM or SGLang would do behind one call: every pass goes on from the longest prefix seen."""

    class Caching(NullEngine):
        def __init__(self, spec: ModelSpec) -> None:
            super().__init__(spec)
            self.seen: list[NullHandle] = []

        def prefill(self, ids: Sequence[int], *, records_past: bool = False) -> Handle:
            fits = [old for old in self.seen if tuple(ids[: len(old.ids)]) == old.ledger]
            if not fits:
                made = super().prefill(ids, records_past=records_past)
            else:
                longest = max(fits, key=lambda old: len(old.ids))
                made = self.fork(longest)
                if rest := ids[len(longest.ids) :]:
                    self.feed(made, rest)
            self.seen.append(self.fork(made))  # type: ignore[arg-type]
            return made

    rows = run(Caching(scripted), work)
    assert other_statuses(rows) == {"invalid"}
    for arm in ("stale", "fresh", "truncate", "checkpoint"):
        assert_refused(rows[arm], "class_crossed")
    for arm in ("cold", "text_present"):
        assert_refused(rows[arm], "class_crossed", "prefix_reused")


# The crop


@pytest.mark.parametrize("excess", [1, -1])
def test_a_crop_that_leaves_or_takes_a_token_too_many(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    plant(monkeypatch, "truncate", lambda bench: bench.cropped(len(bench.split.committed_ids) + excess))
    row = run(engine, work)["truncate"]
    assert_refused(row, "prefix_differs")
    assert row["cache_length"] == len(row["committed_ids"]) + excess


@pytest.mark.parametrize("excess", [1, -1])
def test_an_engine_whose_crop_leaves_or_takes_a_token_too_many(scripted: ModelSpec, work: Work, excess: int) -> None:
    class Slipping(NullEngine):
        def crop(self, handle: Handle, length: int) -> Handle:
            return super().crop(handle, length + excess)

    rows = run(Slipping(scripted), work)
    assert_refused(rows["truncate"], "prefix_differs")
    assert other_statuses(rows, "truncate") == {"done"}


def test_a_restore_of_another_conversation(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp#27148: a cache restored from an unrelated conversation."""
    plant(monkeypatch, "checkpoint", lambda bench: bench.prefilled(bench.split.committed_ids[::-1]))
    assert_refused(run(engine, work)["checkpoint"], "class_crossed", "prefix_differs")


# The engine's own


def test_a_cache_argument_that_is_swallowed(scripted: ModelSpec, work: Work) -> None:
    """transformers 5.23 swallows `cache=` and runs without context; the engine's ledger check raises this."""

    class Swallowing(NullEngine):
        def feed(self, handle: Handle, ids: Sequence[int]) -> None:
            if handle.ledger:
                raise IsolationError("ledger_mismatch", "cache 3, ledger 7")
            super().feed(handle, ids)

    rows = run(Swallowing(scripted), work)
    for arm in TWO_STEP:
        assert_refused(rows[arm], "ledger_mismatch")


def test_an_episode_that_may_cross_a_rotary_switch(scripted: ModelSpec, work: Work) -> None:
    asked: list[tuple[int, int]] = []

    class Switching(NullEngine):
        def check_span(self, shortest: int, longest: int) -> None:
            asked.append((shortest, longest))
            raise IsolationError("rope_switch", f"{shortest} to {longest}")

    assert_all_refused(run(Switching(scripted), work), "rope_switch")
    row = run(NullEngine(scripted), work)["stale"]
    committed, rest = len(row["committed_ids"]), len(row["branch_ids"]) + len(row["delta_ids"])
    assert asked == [(committed, committed + rest + 24)]


def test_a_handle_of_another_engine(scripted: ModelSpec, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = NullEngine(scripted)
    plant(monkeypatch, "checkpoint", lambda bench: stranger.prefill(bench.split.committed_ids))
    rows = run(NullEngine(scripted), work)
    assert_refused(rows["checkpoint"], "foreign_handle")
    assert other_statuses(rows, "checkpoint") == {"done"}
