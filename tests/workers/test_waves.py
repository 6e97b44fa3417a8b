"""A block in waves: passes are prefilled by class, episodes stay whole, and rows say how they were computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from batched import SHAPE, Batched
from planting import plant

from workers import surfaces
from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Handle
from workers.engine.null import NullEngine
from workers.errors import OutOfMemory
from workers.runner import BlockRunner, Computed
from workers.schema import CORE
from workers.spec import ModelSpec
from workers.studies import get
from workers.wave import Laid, laid, waves

Row = dict[str, Any]
STUDY = get("rollback")
SEALED = {column.name for column in (*CORE, *STUDY.columns) if column.is_sealed}
ARMS = "study.arms=[stale,fresh,cold,text_present,truncate,position_control]"
BY_CLASS = {"session", "fresh", "cold", "text_present", "reference"}


@pytest.fixture(scope="module")
def works(make_blocks: Callable[..., list[Block]]) -> list[Work]:
    blocks = make_blocks(
        "where=strength != 'neutral'", "study.arms=[stale,fresh,cold,text_present,truncate,position_control]"
    )
    return [work for block in blocks for work in block.works]


def run(engine: NullEngine, works: Sequence[Work], isolation: str = "class", **settings: Any) -> Computed:
    return BlockRunner(engine, STUDY, isolation, **settings).run(works)


def flat(computed: Computed) -> list[Row]:
    return [row for rows in computed.rows for row in rows]


def sealed(computed: Computed) -> list[Row]:
    return [{name: value for name, value in row.items() if name in SEALED} for row in flat(computed)]


def episodes(engine: NullEngine, works: Sequence[Work]) -> list[Laid]:
    found = [laid(engine, at, work) for at, work in enumerate(works)]
    assert all(isinstance(one, Laid) for one in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("decode_once", [True, False])
@pytest.mark.parametrize("isolation", ["class", "strict"])
def test_sealed_columns_do_not_depend_on_how_rows_were_computed(
    scripted: ModelSpec, works: list[Work], isolation: str, decode_once: bool
) -> None:
    plain = run(NullEngine(scripted), works, "strict")
    found = run(Batched(scripted), works, isolation, decode_once=decode_once)
    assert found.stop == plain.stop == ""
    assert {row["status"] for row in flat(found)} == {"done"}
    assert sealed(found) == sealed(plain)


def test_strict_isolation_shares_nothing(scripted: ModelSpec, works: list[Work]) -> None:
    engine = Batched(scripted)
    rows = flat(run(engine, works, "strict"))
    assert engine.shelves == engine.pools == []
    assert {(row["batch"], row["decoded_with"]) for row in rows} == {("alone", None)}
    assert all(row[name] is not None for row in rows for name in ("prefill_ms", "restore_ms", "decode_ms"))


def test_an_early_block_is_computed_alone_and_says_no_time_of_its_replies(
    scripted: ModelSpec, works: list[Work]
) -> None:
    engine = Batched(scripted)
    runner = BlockRunner(engine, STUDY, "class")
    rows = [row for found in runner.run(works[:1], is_early=True).rows for row in found]
    assert engine.pools == []
    assert [shelf.asked for shelf in engine.shelves] == [[]]
    assert {(row["batch"], row["decoded_with"], row["decode_ms"]) for row in rows} == {("alone", None, None)}
    assert {row["batch"] for row in flat(runner.run(works[1:2]))} == {SHAPE}


def test_an_early_block_is_as_any_other_where_nothing_is_batched(scripted: ModelSpec, works: list[Work]) -> None:
    for isolation in ("class", "strict"):
        found = BlockRunner(NullEngine(scripted), STUDY, isolation).run(works[:1], is_early=True)
        rows = [row for rows in found.rows for row in rows]
        assert any(row["decoded_with"] for row in rows) == (isolation == "class")
        assert all(row["decode_ms"] is not None for row in rows if row["decoded_with"] is None)


def test_a_full_device_gives_the_shelf_back(scripted: ModelSpec, works: list[Work]) -> None:
    full: list[OutOfMemory] = []

    class Full(Batched):
        def fork(self, handle: Handle) -> Handle:
            for planted in full:
                raise planted
            return super().fork(handle)

    engine = Full(scripted)
    runner = BlockRunner(engine, STUDY, "class")
    runner.run(works[:1])
    full.append(OutOfMemory("planted"))
    with pytest.raises(OutOfMemory):
        runner.run(works[1:2])
    full.clear()
    runner.run(works[1:2])
    assert len(engine.shelves) == 2


def test_a_reply_from_a_batch_has_no_time_of_its_own(scripted: ModelSpec, works: list[Work]) -> None:
    rows = flat(run(Batched(scripted), works))
    assert {row["batch"] for row in rows} == {SHAPE}
    assert {row["decode_ms"] for row in rows} == {None}


def test_each_class_asks_for_its_own_passes(scripted: ModelSpec, works: list[Work]) -> None:
    engine = Batched(scripted)
    run(engine, works)
    [shelf] = engine.shelves
    assert {name for name, _ in shelf.asked} == BY_CLASS
    for episode in episodes(engine, works):
        parts, wanted = episode.parts, list(episode.wanted())
        assert ("session", (parts.committed_ids, parts.branch_ids, parts.delta_ids)) in wanted
        assert ("session", (parts.committed_ids, parts.branch_ids)) in wanted
        assert ("session", (parts.committed_ids, parts.delta_ids)) in wanted
        assert ("session", (parts.committed_ids, parts.neutral_branch_ids, parts.delta_ids)) in wanted
        assert ("fresh", (parts.committed_ids, parts.delta_ids)) in wanted
        assert ("cold", (parts.committed_ids + parts.delta_ids,)) in wanted
        assert ("text_present", (parts.branched_ids + parts.delta_ids,)) in wanted
        assert ("reference", (parts.committed_ids,)) in wanted


def test_a_surface_on_another_path_shares_nothing(scripted: ModelSpec, works: list[Work]) -> None:
    there = [
        replace(one, episode=replace(one.episode, surface=surfaces.stamp(surfaces.get("framework_default"))))
        for one in works[:2]
    ]
    engine = Batched(scripted)
    rows = flat(run(engine, there))
    assert {(row["batch"], row["decoded_with"]) for row in rows} == {("alone", None)}
    assert [shelf.asked for shelf in engine.shelves] == [[]]


def test_waves_hold_every_episode_once_and_keep_to_the_budget(engine: NullEngine, works: list[Work]) -> None:
    whole = episodes(engine, works)
    size = max(sum(map(len, chain)) for one in whole for _, chain in one.wanted()) * len(BY_CLASS)
    for budget in (1, size, 3 * size, float("inf")):
        cut = list(waves(whole, budget))
        assert sorted(one.at for wave in cut for one in wave) == list(range(len(whole)))
        for wave in cut:
            distinct = {
                (name, ids[: end + 1])
                for one in wave
                for name, chain in one.wanted()
                for ids in [sum(chain, ())]
                for end in range(len(ids))
            }
            assert len(wave) == 1 or len(distinct) <= budget
    assert len(list(waves(whole, 1))) == len(whole)
    assert len(list(waves(whole, float("inf")))) == 1


def test_episodes_that_share_a_prefix_are_in_one_wave(engine: NullEngine, works: list[Work]) -> None:
    """Blocks that split shared prefixes cost more than they balance."""
    whole = episodes(engine, works)
    mixed = whole[::2] + whole[1::2]
    order = [one.parts.committed_ids for wave in waves(mixed, float("inf")) for one in wave]
    changes = sum(before != after for before, after in pairwise(order))
    assert changes == len(set(order)) - 1


def test_a_block_in_many_waves_gives_the_rows_of_one(scripted: ModelSpec, works: list[Work]) -> None:
    class Heavy(Batched):
        token_bytes = 2**20

    engine = Heavy(scripted)
    assert sealed(run(engine, works, kv_budget_mb=400)) == sealed(run(Batched(scripted), works))
    assert len(engine.pools) > 2


def test_a_small_shelf_is_kept_for_the_next_block_and_a_large_one_is_not(
    scripted: ModelSpec, works: list[Work]
) -> None:
    for num_bytes, num_shelves in ((2**19, 1), (2**19 + 1, 2)):
        engine = Batched(scripted, shelf_bytes=num_bytes)
        runner = BlockRunner(engine, STUDY, "class", kv_budget_mb=1)
        rows = [flat(runner.run([work])) for work in works[:2]]
        assert len(engine.shelves) == num_shelves
        assert {row["status"] for found in rows for row in found} == {"done"}


# One decode for one state


def test_equal_states_are_decoded_once_and_rows_name_the_row(scripted: ModelSpec, works: list[Work]) -> None:
    engine = Batched(scripted)
    names = {(f"{t.cell_id}/{t.draw}"): t.arm for t in works[0].trials}
    rows = {trial.arm: row for trial, row in zip(works[0].trials, run(engine, works[:1]).rows[0], strict=True)}
    assert {arm for arm, row in rows.items() if row["decoded_with"]} >= {"cold", "truncate"}
    for row in rows.values():
        if row["decoded_with"]:
            other = rows[names[row["decoded_with"]]]
            assert other["decoded_with"] is None
            assert (other["state_digest"], other["reply_ids"]) == (row["state_digest"], row["reply_ids"])
    assert len(engine.pools[0].admitted) == sum(row["decoded_with"] is None for row in rows.values())


def test_draws_are_shared_only_with_the_same_noise(
    scripted: ModelSpec, make_blocks: Callable[..., list[Block]]
) -> None:
    drawn = make_blocks("study.decode.temperature=0.7", "study.decode.num_draws=3", "study.arms=[fresh,truncate]")
    work = drawn[0].works[0]
    rows = run(Batched(scripted), [work]).rows[0]
    own = {f"{t.cell_id}/{t.draw}": t.draw for t in work.trials}
    shared = [
        (t.draw, own[row["decoded_with"]]) for t, row in zip(work.trials, rows, strict=True) if row["decoded_with"]
    ]
    assert shared == [(0, 0), (1, 1), (2, 2)]


def test_a_state_with_one_bit_changed_gets_its_own_decode(
    scripted: ModelSpec, works: list[Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger is that of the others: by the tokens it would pass for them."""

    class Flipping(Batched):
        flipped: ClassVar[set[int]] = set()

        def fingerprint(self, handle: Handle) -> str:
            return super().fingerprint(handle) + "'" * (id(handle.root) in self.flipped)

        def distance(self, handle: Handle, reference: Handle) -> float | None:
            return 0.5 if id(handle.root) in self.flipped else super().distance(handle, reference)

    def prepare(bench: Bench) -> Handle:
        state = bench.reprefilled(bench.split.committed_ids)
        engine.flipped.add(id(state.root))
        return state

    engine = Flipping(scripted)
    plant(monkeypatch, "fresh", prepare)
    rows = {t.arm: row for t, row in zip(works[0].trials, run(engine, works[:1]).rows[0], strict=True)}
    assert (rows["fresh"]["layer1"], rows["fresh"]["decoded_with"]) == ("violated", None)
    names = {f"{t.cell_id}/{t.draw}": t.arm for t in works[0].trials}
    assert "fresh" not in {names[row["decoded_with"]] for row in rows.values() if row["decoded_with"]}


# What a surface does after the decision


def test_a_surface_that_goes_on_with_its_state_changes_no_reply(
    scripted: ModelSpec, works: list[Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest_rows = sealed(run(Batched(scripted), works[:1]))
    honest_decide = Bench.decide

    def decide(self: Bench, handle: Handle, read: Any, *, is_one_pass: bool) -> Any:
        found = honest_decide(self, handle, read, is_one_pass=is_one_pass)
        self.engine.feed(handle, self.engine.segmentations(" to red-canary")[0])
        return found

    monkeypatch.setattr(Bench, "decide", decide)
    assert sealed(run(Batched(scripted), works[:1], decode_once=False)) == honest_rows
