"""Authority that travels with the call: only what the committed turns granted may be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from workers.gates.base import Gate, Verdict

if TYPE_CHECKING:
    from workers.gates.base import Call, Scene


class CapabilityGate(Gate):
    """A call needs a capability for itself and its target, and a branch that was aborted grants none."""

    name: ClassVar[str] = "capability"
    version: ClassVar[int] = 1

    def show(self, call: Call, scene: Scene) -> dict[str, Any]:
        """The call, and every capability."""
        return {"call": asdict(call), "capabilities": [list(capability) for capability in scene.capabilities]}

    def review(self, shown: Mapping[str, Any]) -> Verdict:
        """Allowed by a capability for exactly this call and target."""
        call = shown["call"]
        if [call["effect"], call["target"]] in shown["capabilities"]:
            return Verdict(True, "a committed turn granted it")
        return Verdict(False, "no committed turn granted it")


GATE = CapabilityGate
