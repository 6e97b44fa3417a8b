"""An episode's messages as turns that a chat template can take. Only what a model's YAML asks for is changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from workers.episode import Message
from workers.spec import ModelSpec


def arranged(messages: Sequence[Message], model: ModelSpec) -> tuple[Message, ...]:
    """The turns that the model's template is given."""
    turns = tuple(messages)
    if model.system == "fold":
        turns = folded(turns)
    if model.acknowledgement is not None:
        turns = acknowledged(turns, model.acknowledgement)
    return turns


def folded(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A leading system turn becomes the beginning of the first user turn, or a user turn where none follows it."""
    if not messages or messages[0].role != "system":
        return tuple(messages)
    system, *rest = messages
    if rest and rest[0].role == "user":
        return (Message("user", f"{system.text}\n\n{rest[0].text}"), *rest[1:])
    return (Message("user", system.text), *rest)


def acknowledged(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """An assistant turn that says `text` between any two turns of which neither is the assistant's or the system's."""
    turns = list(messages[:1])
    for before, after in pairwise(messages):
        if not {before.role, after.role} & {"assistant", "system"}:
            turns.append(Message("assistant", text))
        turns.append(after)
    return tuple(turns)
