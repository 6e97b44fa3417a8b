"""The cost study on models that are really run: what is timed is also right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator import config
from workers import arms
from workers.bench import Bench
from workers.engine import Engine
from workers.errors import Unsupported
from workers.split import split


@pytest.mark.parametrize("architecture", ["llama", "mistral", "jamba"])
def test_every_restore_that_is_timed_is_intact(tiny: Callable[[str], Engine], architecture: str) -> None:
    engine = tiny(architecture)
    composed = config.load(["study=cost", "model=random-llama", "study.levels={num_words: [60], repeat: [0]}"])
    (episode,) = composed.spec.episodes(composed.models[0])
    states = Bench(engine, split(engine, episode))
    found = {}
    for name in ("fresh", "truncate", "checkpoint"):
        try:
            found[name] = engine.distance(arms.get(name).prepare(states), states.reference)
        except Unsupported:
            continue
    assert set(found) == {"fresh", "checkpoint"} | ({"truncate"} if architecture != "jamba" else set())
    assert all(distance is not None and distance <= engine.facts.layer1_tolerance for distance in found.values())
    assert states.cost.restore_ms > 0
