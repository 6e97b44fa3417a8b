"""One episode: every axis except the arm, made concrete as messages."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from workers.identity import digest


@dataclass(frozen=True, slots=True)
class Message:
    """One turn, before any template: a chat role and its text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """What the arms of one episode share, as text.

    Attributes:
        axes: axis → level, in the study's order; these become the row's axis columns.
        committed: the turns every arm keeps.
        branch: the turns that the abort drops.
        finalize: the turn that asks for the decision.
        carriers: texts that must be absent from the delta (the attack's, also in its control).
        facts: what the study needs to judge a reply; not shown to the model.
        carried: the carrier as this episode's branch says it, where there is one to overwrite.
        surface: where the abort happens, as name and version.
    """

    study: str
    axes: dict[str, Any]
    committed: tuple[Message, ...]
    branch: tuple[Message, ...]
    finalize: tuple[Message, ...]
    carriers: tuple[str, ...]
    facts: dict[str, Any]
    carried: str = ""
    surface: str = "tensor_probe/1"

    @property
    def text(self) -> str:
        """The episode in canonical JSON; `from_text` reads it back."""
        # Not by `asdict`: it copies whatever it is given, which a large grid would wait for.
        return _encoded({name: getattr(self, name) for name in _FIELDS})

    @property
    def digest(self) -> str:
        """Identity of the episode: of its messages, its axes and what it is judged by."""
        return digest(self.text)

    def transcript(self, *, with_branch: bool) -> tuple[Message, ...]:
        """The turns up to the decision: of the clean transcript, or of the one that still holds the branch."""
        return (*self.committed, *(self.branch if with_branch else ()), *self.finalize)

    @classmethod
    def from_text(cls, text: str) -> Episode:
        """Read an episode back from a stored row."""
        fields = json.loads(text)
        turns = {
            part: tuple(Message(**turn) for turn in fields.pop(part)) for part in ("committed", "branch", "finalize")
        }
        return cls(**fields | turns | {"carriers": tuple(fields["carriers"])})


_FIELDS = tuple(field.name for field in fields(Episode))


def _turn(message: Message) -> dict[str, str]:
    return {"role": message.role, "text": message.text}


_encoded = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_turn).encode
