"""Each violation of isolation, planted on the null engine: its name is in the row, and nothing of it is a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from planting import Row, assert_all_refused, assert_refused, plant, run

from workers.bench import Bench
from workers.block import Block, Work
from workers.engine import Facts, Handle, Render
from workers.engine.null import NullEngine, NullHandle, _encode
from workers.episode import Message
from workers.errors import IsolationError, TemplateError
from workers.spec import ModelSpec
from workers.split import SENTINEL

Edit = Callable[[Sequence[Message]], Sequence[Message]]
Prepare = Callable[[Bench], Handle]
TWO_STEP = {"stale", "fresh", "truncate", "checkpoint"}


@pytest.fixture(scope="module")
def work(make_blocks: Callable[..., list[Block]]) -> Work:
    where = "where=vehicle == 'tool_return' and strength == 'imperative' and kind == 'attack'"
    return make_blocks(where)[0].works[0]


def other_rows(rows: dict[str, Row], *arms: str) -> set[str]:
    return {row["status"] for arm, row in rows.items() if arm not in arms}


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
    assert other_rows(run(engine, control)) == {"done"}
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
    assert other_rows(rows, *TWO_STEP) == {"done"}


def test_a_delta_that_was_fed_already(engine: NullEngine, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "fresh", lambda bench: bench.prefilled(bench.split.committed_ids + bench.split.delta_ids))
    rows = run(engine, work)
    assert_refused(rows["fresh"], "delta_differs")
    assert other_rows(rows, "fresh") == {"done"}


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
    assert other_rows(rows) == {"done"}
    assert rows["stale"]["delta_ids"] == run(engine, work)["stale"]["delta_ids"]


def test_a_task_that_ends_like_the_sentinel_would_be_swallowed(engine: NullEngine, work: Work) -> None:
    episode = ending(work, SENTINEL).episode
    alike = replace(episode, branch=(Message("user", f"red-canary {SENTINEL}"),))
    assert_all_refused(run(engine, replace(work, episode=alike)), "committed_swallowed")
    assert other_rows(run(engine, ending(work, "~|"))) == {"done"}


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
    assert other_rows(rows) == statuses
    if times == 2:
        assert_all_refused(rows, "double_bos")


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
    assert other_rows(rows, arm) == {"done"}


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
    assert other_rows(rows, "stale") == {"done"}


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
    assert other_rows(rows, "stale") == {"done"}


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
    assert other_rows(rows, arm) == {"done"}


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

        def prefill(self, ids: Sequence[int]) -> Handle:
            fits = [old for old in self.seen if tuple(ids[: len(old.ids)]) == old.ledger]
            if not fits:
                made = super().prefill(ids)
            else:
                longest = max(fits, key=lambda old: len(old.ids))
                made = self.fork(longest)
                if rest := ids[len(longest.ids) :]:
                    self.feed(made, rest)
            self.seen.append(self.fork(made))  # type: ignore[arg-type]
            return made

    rows = run(Caching(scripted), work)
    assert other_rows(rows) == {"invalid"}
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
    assert other_rows(rows, "truncate") == {"done"}


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
    assert other_rows(rows, "checkpoint") == {"done"}
