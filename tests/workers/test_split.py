"""The split refuses every template that would make the audit untrue, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from workers.engine import Render
from workers.engine.null import NullEngine
from workers.episode import Episode, Message
from workers.errors import IsolationError
from workers.spec import ModelSpec
from workers.split import SENTINEL, is_absent, split

Edit = Callable[[Sequence[Message]], Sequence[Message]]


class Template(NullEngine):
    """The null engine's template after an edit of the messages."""

    def __init__(self, spec: ModelSpec, edit: Edit) -> None:
        super().__init__(spec)
        self.edit = edit

    def render(self, messages: Sequence[Message]) -> Render:
        return super().render(self.edit(messages))


def refusal(spec: ModelSpec, episode: Episode, edit: Edit) -> str:
    with pytest.raises(IsolationError) as caught:
        split(Template(spec, edit), episode)
    return caught.value.check


def test_prefix_branch_and_delta_are_the_full_renders(engine: NullEngine, attack: Episode) -> None:
    parts = split(engine, attack)
    clean = engine.render((*attack.committed, *attack.finalize)).ids
    branched = engine.render((*attack.committed, *attack.branch, *attack.finalize)).ids
    assert parts.committed_ids + parts.delta_ids == clean
    assert parts.committed_ids + parts.branch_ids + parts.delta_ids == branched
    assert attack.finalize[0].text in parts.delta_text
    assert parts.carrier_absent
    assert parts.delta_identical


def test_a_branch_that_ends_like_the_task_takes_no_committed_text(engine: NullEngine, attack: Episode) -> None:
    alike = replace(attack, branch=(Message("user", f"red-canary {attack.committed[-1].text}"),))
    plain, mirrored = split(engine, attack), split(engine, alike)
    assert mirrored.delta_ids == plain.delta_ids
    assert mirrored.committed_ids == plain.committed_ids


def test_the_delta_is_the_same_for_attack_and_control(engine: NullEngine, attack: Episode) -> None:
    texts = attack.branch[0].text.replace("red-canary", "finance-desk")
    control = replace(attack, branch=(Message(attack.branch[0].role, texts),))
    assert split(engine, control).delta_ids == split(engine, attack).delta_ids


def test_a_dropped_tool_message_is_refused(scripted: ModelSpec, attack: Episode) -> None:
    """Phi-3.5, Phi-4 and GLM-4-0414 drop the tool role in silence (kv_cache_facts fact 10)."""
    assert refusal(scripted, attack, lambda m: [t for t in m if t.role != "tool"]) == "message_dropped"


def test_a_template_that_rewrites_history_is_refused(scripted: ModelSpec, attack: Episode) -> None:
    def rewrite(messages: Sequence[Message]) -> Sequence[Message]:
        return [Message("system", f"{len(messages)} turns"), *messages]

    assert refusal(scripted, attack, rewrite) == "history_rewritten"


def test_a_template_that_reorders_the_finalize_turn_is_refused(scripted: ModelSpec, attack: Episode) -> None:
    assert refusal(scripted, attack, lambda m: [m[-1], *m[:-1]]) in ("finalize_cut", "history_rewritten", "empty_split")


def test_an_empty_branch_is_refused(scripted: ModelSpec, attack: Episode) -> None:
    assert refusal(scripted, replace(attack, branch=()), lambda m: m) == "branch_empty"


@pytest.mark.parametrize("finalize", ["", " \n"])
def test_a_finalize_that_says_nothing_is_refused(scripted: ModelSpec, attack: Episode, finalize: str) -> None:
    blank = replace(attack, finalize=(Message("user", finalize),))
    assert refusal(scripted, blank, lambda m: m) == "finalize_cut"


def test_a_carrier_in_the_delta_is_seen_as_string_and_as_ids(engine: NullEngine, attack: Episode) -> None:
    leaky = replace(attack, finalize=(Message("user", "Send it to red-canary now"),))
    assert not split(engine, leaky).carrier_absent
    ids = engine.segmentations("red-canary")[0]
    assert not is_absent(engine, ["red-canary"], ids, "")
    assert not is_absent(engine, ["red-canary"], (), "to red-canary.")
    assert is_absent(engine, ["red-canary"], ids[:-1], "red canary")


def test_the_sentinel_shares_no_end_with_the_studys_texts(attack: Episode) -> None:
    for turn in (*attack.committed, *attack.branch, *attack.finalize):
        assert turn.text[-1] != SENTINEL[-1]
