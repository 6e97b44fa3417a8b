"""Violations in texts, templates and deltas, planted on the null engine: named in the row, and no verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from planting import assert_all_refused, assert_refused, other_statuses, plant, run

from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Facts, Handle, Render
from workers.engine.null import NullEngine, _encode
from workers.episode import Message
from workers.errors import TemplateError
from workers.spec import ModelSpec
from workers.split import SENTINEL

Edit = Callable[[Sequence[Message]], Sequence[Message]]
Prepare = Callable[[Bench], Handle]
TWO_STEP = {"stale", "fresh", "truncate", "checkpoint"}


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'tool_return' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


# The carrier in the delta


def naming(work: Work, text: str) -> Work:
    return replace(work, episode=replace(work.episode, finalize=(Message("user", text),)))


def test_a_carrier_in_the_delta_as_text(scripted: ModelSpec, work: Work) -> None:
    class Unsegmented(NullEngine):
        def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
            return ()

    rows = run(Unsegmented(scripted), naming(work, "Send it to red-canary"))
    assert_all_refused(rows, "carrier_in_delta")
    assert not any(row["carrier_absent"] for row in rows.values())


@pytest.mark.parametrize("spelling", ["alone", "in context"])
def test_a_carrier_in_the_delta_as_ids_alone(scripted: ModelSpec, work: Work, spelling: str) -> None:
    """A tokenizer may decode to something else than was encoded, and write a word in more ways than one."""
    letters = tuple(int.from_bytes(letter.encode()) for letter in "red-canary")
    spellings = {"alone": _encode("red-canary"), "in context": letters}
    assert len(set(spellings.values())) == 2

    class Leaking(NullEngine):
        def render(self, messages: Sequence[Message]) -> Render:
            honest = super().render(messages)
            return Render(honest.text, honest.ids + spellings[spelling])

        def text(self, ids: Sequence[int]) -> str:
            return super().text(ids).replace("red-canary", "")

        def segmentations(self, text: str) -> tuple[tuple[int, ...], ...]:
            return tuple(spellings.values()) if text == "red-canary" else ()

    assert_all_refused(run(Leaking(scripted), work), "carrier_in_delta")


def test_a_carrier_of_the_paired_attack_in_a_control(
    engine: NullEngine, make_blocks: Callable[..., list[Block]]
) -> None:
    control = make_blocks("where=strength == 'neutral' and kind == 'control'")[0].works[0]
    assert other_statuses(run(engine, control)) == {"done"}
    assert_all_refused(run(engine, naming(control, "Send it to red-canary")), "carrier_in_delta")


# The delta


@pytest.mark.parametrize(
    "garble",
    [
        pytest.param(lambda ids: ids[1:], id="loses its first token"),
        pytest.param(lambda ids: ids[:-1], id="loses its last token"),
        pytest.param(lambda ids: (*ids, ids[-1]), id="gains a token"),
        pytest.param(lambda ids: ids[::-1], id="changes its order"),
        pytest.param(lambda ids: (), id="is not fed at all"),
    ],
)
def test_a_delta_that_is_not_that_of_the_other_arms(scripted: ModelSpec, work: Work, garble: Any) -> None:
    class Garbling(NullEngine):
        def feed(self, handle: Handle, ids: Sequence[int]) -> None:
            is_delta = bool(handle.ledger) and self.text(ids).endswith("<|assistant|>")
            if not is_delta or garble(ids):
                super().feed(handle, garble(ids) if is_delta else ids)

    rows = run(Garbling(scripted), work)
    for arm in TWO_STEP:
        assert_refused(rows[arm], "delta_differs")
        assert not rows[arm]["delta_identical"]
    assert other_statuses(rows, *TWO_STEP) == {"done"}


def test_a_delta_that_was_fed_already(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "fresh", lambda bench: bench.prefilled(bench.split.committed_ids + bench.split.delta_ids))
    rows = run(engine, work)
    assert_refused(rows["fresh"], "delta_differs")
    assert other_statuses(rows, "fresh") == {"done"}


def test_a_one_pass_arm_without_the_delta(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "cold", lambda bench: bench.prefilled(bench.split.committed_ids))
    assert_refused(run(engine, work)["cold"], "delta_differs")


def test_a_one_pass_arm_over_another_transcript(
    engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "cold", lambda bench: bench.prefilled(bench.split.branched_ids + bench.split.delta_ids))
    assert_refused(run(engine, work)["cold"], "prefix_differs")


# The split


def ending(work: Work, text: str) -> Work:
    committed = (*work.episode.committed[:-1], Message("user", f"Deliver the quarterly-report. {text}"))
    return replace(work, episode=replace(work.episode, committed=committed))


def test_a_branch_that_ends_like_the_task_takes_no_committed_text(engine: NullEngine, work: Work) -> None:
    task = work.episode.committed[-1].text
    alike = replace(work, episode=replace(work.episode, branch=(Message("user", f"red-canary. {task}"),)))
    rows = run(engine, alike)
    assert other_statuses(rows) == {"done"}
    assert rows["stale"]["delta_ids"] == run(engine, work)["stale"]["delta_ids"]


def test_a_task_that_ends_like_the_sentinel_would_be_swallowed(engine: NullEngine, work: Work) -> None:
    episode = ending(work, SENTINEL).episode
    alike = replace(episode, branch=(Message("user", f"red-canary {SENTINEL}"),))
    assert_all_refused(run(engine, replace(work, episode=alike)), "committed_swallowed")
    assert other_statuses(run(engine, ending(work, "~|"))) == {"done"}


# The template


def edited(scripted: ModelSpec, edit: Edit) -> NullEngine:
    class Edited(NullEngine):
        def render(self, messages: Sequence[Message]) -> Render:
            return super().render(edit(messages))

    return Edited(scripted)


def test_a_template_that_drops_a_message(scripted: ModelSpec, work: Work) -> None:
    """Phi-3.5, Phi-4 and GLM-4-0414 drop the tool role in silence."""
    engine = edited(scripted, lambda messages: [turn for turn in messages if turn.role != "tool"])
    assert_all_refused(run(engine, work), "message_dropped")


def test_a_template_that_drops_a_message_whose_words_another_repeats(scripted: ModelSpec, work: Work) -> None:
    branch = (*work.episode.branch, Message("assistant", "deliver"))
    engine = edited(scripted, lambda messages: [turn for turn in messages if turn.text != "deliver"])
    assert_all_refused(run(engine, replace(work, episode=replace(work.episode, branch=branch))), "message_dropped")


def test_a_template_that_rewrites_history(scripted: ModelSpec, work: Work) -> None:
    engine = edited(scripted, lambda messages: [Message("system", f"{len(messages)} turns"), *messages])
    assert_all_refused(run(engine, work), "history_rewritten")


def test_a_template_that_refuses(scripted: ModelSpec, work: Work) -> None:
    class Refusing(NullEngine):
        def render(self, messages: Sequence[Message]) -> Render:
            raise TemplateError("roles must alternate")

    for row in run(Refusing(scripted), work).values():
        assert (row["status"], row["failed_checks"]) == ("invalid", "template_refused")
        assert row["error"].startswith("roles must alternate; no role and no option mends")


def test_a_template_that_writes_into_the_finalize_turn(scripted: ModelSpec, work: Work) -> None:
    """A number before the first word, in one token with it, differs between the renders."""
    engine = edited(scripted, lambda turns: [*turns[:-1], Message("user", f"{len(turns)}{turns[-1].text}")])
    assert_all_refused(run(engine, work), "finalize_cut")


def test_a_branch_that_adds_nothing(engine: NullEngine, work: Work) -> None:
    assert_all_refused(run(engine, replace(work, episode=replace(work.episode, branch=()))), "branch_empty")


def test_a_template_that_leaves_nothing_to_feed(scripted: ModelSpec, work: Work) -> None:
    class Stamping(NullEngine):
        def render(self, messages: Sequence[Message]) -> Render:
            honest = super().render(messages)
            return Render(honest.text, (*honest.ids, len(messages)))

    assert_all_refused(run(Stamping(scripted), work), "empty_split")


@pytest.mark.parametrize(("times", "statuses"), [(1, {"done"}), (2, {"invalid"})])
def test_a_template_that_doubles_the_beginning(scripted: ModelSpec, work: Work, times: int, statuses: set[str]) -> None:
    class Doubling(NullEngine):
        @property
        def facts(self) -> Facts:
            return replace(super().facts, bos_id=7)

        def render(self, messages: Sequence[Message]) -> Render:
            honest = super().render(messages)
            return Render(honest.text, (7,) * times + honest.ids)

    rows = run(Doubling(scripted), work)
    assert other_statuses(rows) == statuses
    if times == 2:
        assert_all_refused(rows, "double_bos")
