"""What must hold before a trial is an observation (DESIGN §4.5, §4.6). A check yields its name and what is wrong.

An arm says which tokens its state holds, and the ledger is held to it: a treatment that kept or lost a token is another
treatment than the row says, so the trial is invalid. Whether the tensors hold what the ledger says is Layer 1's
question, and a violation there is an observation. A trial that fails a check has no verdict of any kind, Layer 1
included. Other checks raise `IsolationError` where they stand: in the split of an episode, in the engine at each feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from workers.arms.base import class_of

if TYPE_CHECKING:
    from workers.arms import Arm
    from workers.bench import Bench
    from workers.engine import Handle
    from workers.split import Split

Broken = Iterator[tuple[str, str]]


def of_state(bench: Bench, arm: Arm, handle: Handle) -> Broken:
    """What an arm prepared, before the delta is fed: nothing is decided on a state that fails here."""
    if not bench.split.carrier_absent:
        yield "carrier_in_delta", "the delta names the carrier"
    yield from _storage(bench, handle)
    yield from _origin(bench, arm, handle)
    yield from _tokens(bench.split, arm, handle)


def of_delta(parts: Split, arm: Arm, handle: Handle) -> Broken:
    """What the decision is read from: the tokens that the arm claims, then the delta of every other arm."""
    if handle.ledger != arm.transcript(parts) + parts.delta_ids:
        yield "delta_differs", "the ledger does not end in this episode's delta"


def of_parents(bench: Bench) -> Broken:
    """What the next arm starts from."""
    if not bench.is_intact():
        yield "parent_changed", "a shared state no longer has the bytes it was made with"


def _storage(bench: Bench, handle: Handle) -> Broken:
    owners: list[tuple[str, Handle]] = [(shared.kind, shared.handle) for shared in bench.shared]
    owners += [("state of another arm", other) for other in bench.earlier()]
    for kind, other in owners:
        if bench.engine.shares_storage(handle, other):
            yield "storage_shared", f"the state lies in the memory of the {kind}"


def _origin(bench: Bench, arm: Arm, handle: Handle) -> Broken:
    """States are shared inside a class of arms only, or a check would compare a tensor with itself."""
    kinds = {shared.kind for shared in bench.shared if shared.handle.root is handle.root}
    may_share = arm.shares == "session"
    if kinds != ({"session"} if may_share else set()):
        found = " and ".join(sorted(kinds)) or "a pass of its own"
        yield "class_crossed", f"an arm that shares {arm.shares} descends from {found}"
    elif not may_share and bench.is_taken(handle.root):
        yield "class_crossed", "the state descends from another arm's"
    if handle.shared_by not in (None, class_of(arm)):
        yield "class_crossed", f"an arm of the class {class_of(arm)} took what {handle.shared_by} has on the shelf"
    if not may_share and handle.passes != (len(handle.ledger),):
        yield "prefix_reused", f"{len(handle.ledger)} tokens came in passes of {_listed(handle.passes)}, not in one"


def _tokens(parts: Split, arm: Arm, handle: Handle) -> Broken:
    claimed, held = arm.transcript(parts), handle.ledger
    with_delta = claimed + parts.delta_ids
    if held == (with_delta if arm.is_one_pass else claimed):
        return
    if arm.is_one_pass and held[-len(parts.delta_ids) :] != parts.delta_ids:
        yield "delta_differs", "the pass does not end in this episode's delta"
    elif not arm.is_one_pass and held == with_delta:
        yield "delta_differs", "the delta was fed before its time"
    else:
        yield "prefix_differs", f"the state holds {len(held)} tokens, not the {len(claimed)} that the arm claims"


def _listed(passes: tuple[int, ...]) -> str:
    return ", ".join(map(str, passes[:4])) + (", …" if len(passes) > 4 else "")
