"""The identities between arms that make the audit an audit, on every cache family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workers import arms
from workers.bench import Bench
from workers.engine import Decoded, Engine, Handle
from workers.errors import Unsupported

FAMILIES = {
    "scripted": "full",
    "llama": "full",
    "mistral": "sliding",
    "gemma2": "sliding",
    "llama4_text": "chunked",
    "falcon_h1": "hybrid",
    "qwen3_next": "hybrid",
    "jamba": "hybrid",
    "mamba": "recurrent",
    "lfm2": "conv",
}
CROPPED = {"scripted", "llama", "mistral", "gemma2"}
MASKED = {*CROPPED, "llama4_text"}
OUT_OF_REACH = {"llama4_text", "mamba"}
"""Their last token no longer sees or remembers the carrier: it lies beyond the chunk, or too far back."""
LACKS = {
    "truncate": FAMILIES.keys() - CROPPED,
    "content_addressed": FAMILIES.keys() - CROPPED,
    "provenance_mask": FAMILIES.keys() - MASKED,
}
"""Arm → the models whose cache cannot do it."""
TARGET = "SEND report TO red-canary"
NOISE = 2e-4
"""nats, between honest passes of other shapes"""

every_family = pytest.mark.parametrize("architecture", FAMILIES)
MakeBench = Callable[[Engine], Bench]
Tiny = Callable[[str], Engine]


def decided(bench: Bench, name: str) -> Handle:
    """The state after the delta, in that arm."""
    arm = arms.get(name)
    handle = arm.prepare(bench)
    if not arm.is_one_pass:
        bench.engine.feed(handle, bench.split.delta_ids)
    return handle


def reply(bench: Bench, name: str) -> Decoded:
    return bench.engine.decode(decided(bench, name), 12)


def target_score(bench: Bench, name: str) -> float:
    return bench.engine.score(decided(bench, name), TARGET)


@every_family
def test_family_is_recognised(tiny: Tiny, architecture: str) -> None:
    assert tiny(architecture).facts.cache == FAMILIES[architecture]


@every_family
def test_stale_replies_as_if_the_branch_were_there(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    assert reply(states, "stale").ids == reply(states, "text_present").ids
    assert target_score(states, "stale") == pytest.approx(target_score(states, "text_present"), abs=NOISE)


@every_family
def test_fresh_replies_as_cold(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    assert reply(states, "fresh").ids == reply(states, "cold").ids
    assert target_score(states, "fresh") == pytest.approx(target_score(states, "cold"), abs=NOISE)


@every_family
def test_stale_is_not_fresh(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    assert abs(target_score(states, "stale") - target_score(states, "fresh")) > 10 * NOISE


@every_family
def test_checkpoint_is_fresh_bit_for_bit(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    checkpoint, fresh = (arms.get(name).prepare(states) for name in ("checkpoint", "fresh"))
    assert states.engine.digest(checkpoint) == states.engine.digest(fresh)


@every_family
def test_truncate_is_fresh_bit_for_bit_or_unsupported(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    if architecture not in CROPPED:
        with pytest.raises(Unsupported, match="cannot be cropped"):
            arms.get("truncate").prepare(states)
        return
    truncate, fresh = (arms.get(name).prepare(states) for name in ("truncate", "fresh"))
    assert states.engine.digest(truncate) == states.engine.digest(fresh)
    assert reply(states, "truncate").ids == reply(states, "fresh").ids


@every_family
def test_the_position_control_is_as_long_as_stale_and_answers_otherwise(
    tiny: Tiny, bench: MakeBench, architecture: str
) -> None:
    states = bench(tiny(architecture))
    control, stale = (decided(states, name) for name in ("position_control", "stale"))
    assert len(control.ledger) == len(stale.ledger)
    changed = sum(a != b for a, b in zip(control.ledger, stale.ledger, strict=True))
    assert changed == states.split.carrier_tokens
    scores = [states.engine.score(handle, TARGET) for handle in (control, stale)]
    assert architecture in OUT_OF_REACH or abs(scores[0] - scores[1]) > 10 * NOISE


@every_family
def test_a_provenance_mask_keeps_the_branch_in_the_cache_and_out_of_sight_or_is_unsupported(
    tiny: Tiny, bench: MakeBench, architecture: str
) -> None:
    states = bench(tiny(architecture))
    arm = arms.get("provenance_mask")
    if architecture not in MASKED:
        with pytest.raises(Unsupported, match="cannot be masked"):
            arm.prepare(states)
        return
    masked = arm.prepare(states)
    assert masked.ledger == arm.transcript(states.split) == states.split.branched_ids
    assert states.engine.distance(masked, states.reference) is None
    effect = abs(target_score(states, "provenance_mask") - target_score(states, "stale"))
    assert architecture in OUT_OF_REACH or effect > 10 * NOISE


@every_family
def test_layer_1_tells_the_restored_from_the_stale(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    engine = states.engine
    for name in ("fresh", "checkpoint"):
        assert engine.distance(arms.get(name).prepare(states), states.reference) == 0.0
    assert engine.distance(arms.get("stale").prepare(states), states.reference) is None


@every_family
def test_no_arm_changes_the_shared_states(tiny: Tiny, bench: MakeBench, architecture: str) -> None:
    states = bench(tiny(architecture))
    arms.get("stale").prepare(states)
    assert states.reference.ledger == states.split.committed_ids
    assert len(states.shared) == 3
    for name in arms.names():
        if architecture not in LACKS.get(name, ()):
            states.engine.score(decided(states, name), TARGET)
            reply(states, name)
    assert states.is_intact()
    states.engine.feed(states.reference, states.split.delta_ids)
    assert not states.is_intact()


def test_the_real_model_keeps_the_identities(smollm2: Engine, bench: MakeBench) -> None:
    states = bench(smollm2)
    replies = {name: reply(states, name) for name in arms.names()}
    assert replies["stale"].ids == replies["text_present"].ids
    assert replies["fresh"].ids == replies["cold"].ids == replies["truncate"].ids == replies["checkpoint"].ids
    assert abs(target_score(states, "stale") - target_score(states, "fresh")) > 0.1
