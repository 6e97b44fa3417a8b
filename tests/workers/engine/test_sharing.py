"""Shared prefills and batches on real tensors: the same sealed columns, and no class sees another's shelf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from planting import Row, assert_refused, other_statuses, plant, run

from workers import surfaces
from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Engine, Handle
from workers.runner import BlockRunner
from workers.schema import CORE
from workers.studies import get

Tiny = Callable[[str], Engine]
STUDY = get("rollback")
SEALED = {column.name for column in (*CORE, *STUDY.columns) if column.is_sealed}


@pytest.fixture(scope="module")
def works(make_blocks: Callable[..., list[Block]]) -> list[Work]:
    where = "where=vehicle == 'user_turn' and strength == 'imperative'"
    arms = "study.arms=[stale,fresh,cold,text_present,truncate,checkpoint,position_control,provenance_mask]"
    return [work for block in make_blocks(where, arms) for work in block.works]


def sealed(rows: list[list[Row]]) -> list[Row]:
    return [{name: value for name, value in row.items() if name in SEALED} for found in rows for row in found]


@pytest.mark.parametrize("decode_once", [True, False])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "falcon_h1", "mamba"])
def test_class_and_strict_isolation_give_the_same_sealed_columns(
    tiny: Tiny, works: list[Work], architecture: str, decode_once: bool
) -> None:
    engine = tiny(architecture)
    # Only llama's states are shared and batched here.
    asked = works if architecture == "llama" else works[:1]
    strict = BlockRunner(engine, STUDY, "strict").run(asked)
    shared = BlockRunner(engine, STUDY, "class", decode_once=decode_once).run(asked)
    assert (strict.stop, shared.stop) == ("", "")
    assert sealed(shared.rows) == sealed(strict.rows)


@pytest.mark.parametrize("surface", surfaces.names())
def test_every_surface_gives_what_it_gives_alone(llama: Engine, works: list[Work], surface: str) -> None:
    there = [
        replace(one, episode=replace(one.episode, surface=surfaces.stamp(surfaces.get(surface)))) for one in works[:1]
    ]
    strict = BlockRunner(llama, STUDY, "strict").run(there)
    shared = BlockRunner(llama, STUDY, "class").run(there)
    assert sealed(shared.rows) == sealed(strict.rows)


def test_a_state_from_the_shelf_of_another_class(
    llama: Engine, works: list[Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass of its own, on memory of its own: only whose shelf it came from tells it."""

    def borrow(bench: Bench) -> Handle:
        assert bench.shelf is not None
        return bench.engine.sharing(bench.shelf, "reference").prefill(bench.split.committed_ids)

    assert other_statuses(run(llama, works[0])) == {"done"}
    plant(monkeypatch, "fresh", borrow)
    rows = run(llama, works[0])
    assert_refused(rows["fresh"], "class_crossed")
    assert "reference has on the shelf" in rows["fresh"]["error"]
    assert other_statuses(rows, "fresh") == {"done"}


def test_what_a_shelf_had_has_no_time(llama: Engine, works: list[Work]) -> None:
    shared, strict = run(llama, works[0]), run(llama, works[0], "strict")
    for arm in ("fresh", "cold", "text_present"):
        assert shared[arm]["prefill_ms"] is None
        assert strict[arm]["prefill_ms"] > 0
        assert shared[arm]["prefill_tokens"] == strict[arm]["prefill_tokens"]
    assert shared["fresh"]["restore_ms"] is None
    for arm in ("truncate", "checkpoint"):
        assert shared[arm]["restore_ms"] > 0


def test_a_fork_that_changes_one_bit_is_a_violation_with_a_decode_of_its_own(
    llama: Engine, works: list[Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens and its length are those of the other clean states."""

    def prepare(bench: Bench) -> Handle:
        state: Any = bench.snapshot()
        keys = state.cache.layers[0].keys.view(torch.int32)
        # The lowest bit of the exponent: as small a change as Layer 1 has to see.
        keys[0, 0, 0, 0] ^= 1 << 23
        return state  # type: ignore[no-any-return]

    plant(monkeypatch, "checkpoint", prepare)
    rows = run(llama, works[0], decode_once=True)
    names = {f"{trial.cell_id}/{trial.draw}": trial.arm for trial in works[0].trials}
    assert rows["checkpoint"]["status"] == "done"
    assert rows["checkpoint"]["layer1"] == "violated"
    assert rows["checkpoint"]["decoded_with"] is None
    assert "checkpoint" not in {names[row["decoded_with"]] for row in rows.values() if row["decoded_with"]}
