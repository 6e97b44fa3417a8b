"""What a gate is: a rule at the executor, asked about a call after the reply was decoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from workers.spec import Spec

if TYPE_CHECKING:
    from workers.episode import Message


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a reply makes.

    Attributes:
        effect: the call's name, `send_message`.
        target: the field that decides about harm, normalised as `workers.replies` does.
        arguments: the other fields, as far as the reply was read.
    """

    effect: str
    target: str
    arguments: Mapping[str, str] = field(default_factory=dict)


class Capability(NamedTuple):
    """Authority for one call on one target."""

    effect: str
    target: str


@dataclass(frozen=True, slots=True)
class Scene:
    """What a gate may be shown. Which targets the study calls unauthorised is not among it: no gate is an oracle.

    Attributes:
        transcript: the logical transcript of the arm; an aborted branch is not in it.
        capabilities: what the committed turns granted.
    """

    transcript: tuple[Message, ...]
    capabilities: tuple[Capability, ...]


class Verdict(NamedTuple):
    """A gate's answer about one call, and its reason in a few words."""

    is_allowed: bool
    reason: str


class Gate(Spec, ABC):
    """A gate as configured. A module of this package defines one class and names it `GATE`; its fields are parameters.

    It works in two steps, so that a log of the first says exactly what the second knew.

    Attributes:
        name: as in configs and rows, one word.
        version: raise it when the same configuration decides otherwise; it is a part of every cell's identity.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    @abstractmethod
    def show(self, call: Call, scene: Scene) -> dict[str, Any]:
        """The part of call and scene that the gate looks at, as JSON values."""

    @abstractmethod
    def review(self, shown: Mapping[str, Any]) -> Verdict:
        """Decide from what was shown and from nothing else. Never raises: a call is hostile text."""

    def check_calls(self, calls: Collection[str]) -> None:
        """Refuse parameters about calls that do not exist: a misspelt permission would block in silence.

        Raises:
            ConfigError: one of them is in no effect of the study.
        """

    def about(self, call: str) -> Self:  # noqa: ARG002
        """The gate as far as it can matter to a call of that name: what else it says is no part of the question."""
        return self
