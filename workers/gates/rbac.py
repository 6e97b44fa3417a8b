"""Role-based access control: what the agent's role may do, whoever asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import StringConstraints

from workers.errors import ConfigError, nearest
from workers.gates.base import Gate, Verdict

if TYPE_CHECKING:
    from workers.gates.base import Call, Scene

Word = Annotated[str, StringConstraints(min_length=1)]


class RbacGate(Gate):
    """A role has permissions, fixed beforehand and usually wider than one task needs.

    It knows nothing of the conversation, so a target that the role may reach is let through although this task's
    policy forbids it, and a call without an entry is refused.
    """

    name: ClassVar[str] = "rbac"
    version: ClassVar[int] = 1

    role: Word
    may: dict[str, tuple[Word, ...]]
    """Call → targets, each a name or a shell pattern, `*-desk`."""

    def show(self, call: Call, scene: Scene) -> dict[str, Any]:  # noqa: ARG002
        """The call alone."""
        return {"call": asdict(call)}

    def review(self, shown: Mapping[str, Any]) -> Verdict:
        """Allowed where a pattern of the call's entry matches its target, case and all."""
        effect, target = shown["call"]["effect"], shown["call"]["target"]
        for pattern in self.may.get(effect, ()):
            if fnmatchcase(target, pattern):
                return Verdict(True, f"the role {self.role} may: {pattern}")
        return Verdict(False, f"the role {self.role} may not")

    def check_calls(self, calls: Collection[str]) -> None:
        """Every permission is about a call that exists."""
        for call in self.may:
            if call not in calls:
                raise ConfigError(f"study.gates.rbac.may: no effect makes the call {call!r}{nearest(call, calls)}")

    def about(self, call: str) -> Self:
        """The role with that call's entry alone."""
        return self.model_copy(update={"may": {name: may for name, may in self.may.items() if name == call}})


GATE = RbacGate
