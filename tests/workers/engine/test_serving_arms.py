"""A branch on a fork, and pages found by their tokens: both leave the session as if the branch had never been."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workers import arms, isolation
from workers.arms import content_addressed
from workers.bench import Bench, Cost
from workers.engine import Engine, Handle
from workers.errors import Unsupported
from workers.pages import Pages
from workers.surfaces.tensor_probe import ProbeSession

FAMILIES = (
    "scripted",
    "llama",
    "mistral",
    "gemma2",
    "llama4_text",
    "falcon_h1",
    "qwen3_next",
    "jamba",
    "mamba",
    "lfm2",
)
PAGED = {"scripted", "llama", "mistral", "gemma2"}

every_family = pytest.mark.parametrize("architecture", FAMILIES)
MakeBench = Callable[[Engine], Bench]
Tiny = Callable[[str], Engine]


def broken_checks(bench: Bench, name: str, state: Handle) -> list[str]:
    arm = arms.get(name)
    return [check for check, _ in (*isolation.of_state(bench, arm, state), *isolation.of_parents(bench))]


def decided_as_fresh(bench: Bench, state: Handle) -> bool:
    fresh = arms.get("fresh").prepare(bench)
    for handle in (state, fresh):
        bench.engine.feed(handle, bench.split.delta_ids)
    return bench.engine.decode(state, 12).ids == bench.engine.decode(fresh, 12).ids


@every_family
def test_a_branch_on_a_fork_leaves_its_parent_bit_for_bit(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    before = states.engine.digest(states.engine.prefill(states.split.committed_ids))
    state = arms.get("branch_scoped").prepare(states)
    (parent, explored) = (shared for shared in states.shared if shared.kind == "session")
    assert parent.made == states.engine.digest(parent.handle) == before
    assert explored.handle.ledger == states.split.branched_ids
    assert states.engine.digest(state) == before
    assert states.engine.distance(state, states.reference) == 0.0
    assert broken_checks(states, "branch_scoped", state) == []
    assert decided_as_fresh(states, state)


@every_family
def test_a_fork_that_leaks_into_its_parent_is_caught(
    tiny: Tiny, bench: MakeBench, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `copy.copy` of a cache would do: the fork and its parent are one and the same storage."""
    states = bench(tiny(architecture))

    def leaking(self: ProbeSession) -> tuple[Handle, Handle]:
        session = self.engine.prefill(self.script.committed.ids)
        self.engine.feed(session, self.script.branch.ids)
        return session, session

    monkeypatch.setattr(ProbeSession, "_states", property(leaking))
    state = arms.get("branch_scoped").prepare(states)
    assert "prefix_differs" in broken_checks(states, "branch_scoped", state)


@every_family
def test_a_branch_that_reaches_the_parent_afterwards_is_caught(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    state = arms.get("branch_scoped").prepare(states)
    parent = next(shared.handle for shared in states.shared if shared.handle.ledger == states.split.committed_ids)
    states.engine.feed(parent, states.split.branch_ids)
    assert broken_checks(states, "branch_scoped", state) == ["parent_changed"]


@every_family
def test_pages_give_the_committed_prefix_or_are_unsupported(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    """mlx-lm#980: a hybrid cache was recomputed in silence; what is reused is counted here, and a refusal is said."""
    states = bench(tiny(architecture))
    if architecture not in PAGED:
        with pytest.raises(Unsupported, match="cannot be cropped"):
            arms.get("content_addressed").prepare(states)
        return
    states.cost = Cost()
    state = arms.get("content_addressed").prepare(states)
    reused = len(states.split.committed_ids) // 16 * 16
    assert states.cost.recomputed_tokens == len(states.split.committed_ids) - reused
    distance = states.engine.distance(state, states.reference)
    assert distance is not None
    assert distance <= states.engine.facts.layer1_tolerance
    assert broken_checks(states, "content_addressed", state) == []
    assert decided_as_fresh(states, state)


def test_a_prefix_that_ends_with_a_page_is_reused_whole(
    llama: Engine, bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = bench(llama)
    monkeypatch.setattr(content_addressed, "Pages", lambda: Pages(1))
    states.cost = Cost()
    state = arms.get("content_addressed").prepare(states)
    assert states.cost.recomputed_tokens == 0
    assert broken_checks(states, "content_addressed", state) == []
    assert decided_as_fresh(states, state)


def test_a_prefix_shorter_than_a_page_shares_nothing(
    llama: Engine, bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_addressed, "Pages", lambda: Pages(10_000))
    with pytest.raises(Unsupported, match="no page of 10000 tokens is full"):
        arms.get("content_addressed").prepare(bench(llama))


class OfTheSession(Pages[Handle]):
    """Pages named by their place in the session: as many as the request has, whatever they hold."""

    def _name(self, parent: str, ids: tuple[int, ...]) -> str:  # type: ignore[override]
        return super()._name(parent, ())


def test_pages_named_by_their_place_give_a_prefix_of_another_request(llama: Engine, bench: MakeBench) -> None:
    """The fault that the pages' names rule out, in tensors: what they give is not what the request would compute."""
    states = bench(llama)
    asked = states.split.branched_ids
    for pages, is_clean in ((OfTheSession(), False), (Pages[Handle](), True)):
        other = llama.prefill(asked[::-1])
        pages.release(pages.enter(other.ledger, other))
        found = pages.match(asked)
        assert bool(found) is not is_clean
        if found:
            state = llama.crop(found[-1].place, found[-1].stop)
            distance = llama.distance(state, llama.prefill(asked[: found[-1].stop]))
            assert distance is not None
            assert distance > 1000 * llama.facts.layer1_tolerance


def test_pages_of_a_masked_state_are_not_taken_for_those_of_its_tokens(llama: Engine, bench: MakeBench) -> None:
    """vllm#56655: a key of tokens alone gave the pages of a request that was masked otherwise.

    A page's name is its tokens', so what else went into a state travels with it: Layer 1 tells the two apart, and so
    does the digest by which one computation may stand for another.
    """
    states = bench(llama)
    asked = states.split.branched_ids
    masked = llama.mask(llama.prefill(asked[:20]), 4, 12)
    llama.feed(masked, asked[20:])
    pages = Pages[Handle]()
    pages.release(pages.enter(masked.ledger, masked))
    found = pages.match(asked)
    served, honest = llama.crop(found[-1].place, found[-1].stop), llama.prefill(asked[: found[-1].stop])
    assert served.ledger == honest.ledger
    assert llama.distance(served, honest) is None
    assert llama.digest(served) != llama.digest(honest)
    unmasked = llama.prefill(asked[:20])
    assert llama.digest(llama.mask(unmasked, 4, 12)) != llama.digest(unmasked)
