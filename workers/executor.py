"""The executor: it records what a reply would do, and never authorises it.

Gates are a defence an application could put in front of it. Every one of them is asked about every trial: they need no
further decode, so a single row tells for each gate whether the reply would have got through, beside a Layer 1 that no
gate changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.gates import Call, Gate, Scene
from workers.identity import canonical
from workers.schema import TEXT, Column

COLUMNS = (
    Column("blocked_by", TEXT, True, "gates that would stop the reply, by name; empty for none, null without a call"),
    Column("gate_log", TEXT, True, "of each gate and call: what it was shown, its verdict and reason, JSON"),
)


def review(calls: Sequence[Call], scene: Scene, gates: Sequence[Gate]) -> dict[str, str | None]:
    """Ask every gate about every call of one reply.

    A reply is stopped whole: a gate that refuses one of its calls lets none of them happen.

    Returns:
        `blocked_by` and `gate_log`; both null for a reply that makes no call, which no gate was asked about.
    """
    if not calls:
        return {"blocked_by": None, "gate_log": None}
    log = {gate.name: [_entry(call, scene, gate) for call in calls] for gate in gates}
    blocked_by = [name for name, entries in log.items() if not all(entry["is_allowed"] for entry in entries)]
    return {"blocked_by": ",".join(sorted(blocked_by)), "gate_log": canonical(log)}


def _entry(call: Call, scene: Scene, gate: Gate) -> dict[str, Any]:
    shown = gate.show(call, scene)
    verdict = gate.review(shown)
    return {"shown": shown, "is_allowed": verdict.is_allowed, "reason": verdict.reason}
