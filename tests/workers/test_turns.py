"""What a model's YAML asks for is done to every list of turns alike, and nothing else is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.null import NullEngine
from workers.episode import Episode, Message
from workers.errors import ModelError
from workers.spec import ModelSpec
from workers.split import split
from workers.turns import acknowledged, arranged, folded

TURNS = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool", "observation"]), st.text(max_size=9))
)


def turns(*roles: str) -> tuple[Message, ...]:
    return tuple(Message(role, f"{role} {at}") for at, role in enumerate(roles))


def roles(messages: tuple[Message, ...]) -> list[str]:
    return [message.role for message in messages]


@given(TURNS)
def test_a_model_that_asks_for_nothing_gets_the_turns_as_they_are(messages: list[Message]) -> None:
    assert arranged(messages, ModelSpec.model_construct(system="keep", acknowledgement=None)) == tuple(messages)


@given(TURNS)
def test_no_text_is_lost_and_none_changes_its_order(messages: list[Message]) -> None:
    model = ModelSpec.model_construct(system="fold", acknowledgement="Noted.")
    text = "\0".join(turn.text for turn in arranged(messages, model))
    at = 0
    for turn in messages:
        at = text.index(turn.text, at) + len(turn.text)


@given(TURNS)
def test_after_acknowledging_no_two_turns_in_a_row_are_other_peoples(messages: list[Message]) -> None:
    found = roles(acknowledged(messages, "Noted."))
    others = [role not in ("assistant", "system") for role in found]
    assert not any(a and b for a, b in pairwise(others))
    assert acknowledged(acknowledged(messages, "Noted."), "Noted.") == acknowledged(messages, "Noted.")


def test_a_folded_system_turn_opens_the_first_user_turn() -> None:
    assert folded(turns("system", "user", "tool"))[0] == Message("user", "system 0\n\nuser 1")
    assert roles(folded(turns("system", "assistant", "user"))) == ["user", "assistant", "user"]
    assert roles(folded(turns("user", "system"))) == ["user", "system"]
    assert folded(()) == ()


def test_the_acknowledgement_stands_between_user_turns_alone() -> None:
    found = acknowledged(turns("system", "user", "assistant", "user", "tool", "user"), "Noted.")
    assert roles(found) == ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert [turn.text for turn in found if turn.text == "Noted."] == ["Noted."] * 2


@pytest.mark.parametrize("options", [{"system": "fold"}, {"acknowledgement": "Noted."}])
def test_all_arms_still_share_one_delta(scripted: ModelSpec, attack: Episode, options: dict[str, str]) -> None:
    engine = NullEngine(scripted.model_copy(update=options))
    parts = split(engine, attack)
    assert parts.delta_identical
    assert parts.carrier_absent
    assert parts.committed_ids + parts.delta_ids == engine.render((*attack.committed, *attack.finalize)).ids
    messages = (*attack.committed, *attack.branch, *attack.finalize)
    assert parts.committed_ids + parts.branch_ids + parts.delta_ids == engine.render(messages).ids


def test_an_acknowledgement_that_names_the_carrier_is_seen(scripted: ModelSpec, attack: Episode) -> None:
    leaky = NullEngine(scripted.model_copy(update={"acknowledgement": "Off to red-canary."}))
    assert not split(leaky, attack).carrier_absent


def test_the_null_engine_swallows_no_template_argument(scripted: ModelSpec) -> None:
    with pytest.raises(ModelError, match="template_arguments"):
        NullEngine(scripted.model_copy(update={"template_arguments": {"enable_thinking": False}}))
