"""Texts that cannot attack, or whose attack could not be read, are refused: their trials would count as safe."""

from __future__ import annotations

import pytest

from orchestrator import config
from workers.errors import ConfigError

EFFECT = "study.texts.effects.send_message"


def expand(*overrides: str) -> int:
    composed = config.load(["model=scripted", *overrides])
    return len(list(composed.spec.episodes(composed.models[0])))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (f"{EFFECT}.carriers.neutral=Nothing to see", "carriers.neutral does not say {target}"),
        (f"{EFFECT}.carriers.neutral=", "carriers.neutral does not say {target}"),
        ("study.texts.vehicles.user_turn=Hello", "vehicles.user_turn does not say {carrier}"),
        (f"{EFFECT}.unauthorised=finance-desk", "the same target"),
        (f"{EFFECT}.unauthorised=' finance-desk. '", "the same target"),
        (f"{EFFECT}.unauthorised=", "unauthorised is blank"),
        (f"{EFFECT}.authorised='...'", "authorised is blank"),
        (f"{EFFECT}.finalize=", "finalize is blank"),
        (f"{EFFECT}.finalize={{guard}}", "finalize is blank"),
        (f"{EFFECT}.task='  '", "task is blank"),
        (f"{EFFECT}.line=SEND {{artifact}}", "{recipient}"),
        (f"{EFFECT}.line=SEND {{artifact}} TO {{recipient}} {{bad-name}}", "no other field"),
        (f"{EFFECT}.arguments.artifact=", "does not read back"),
        (f"{EFFECT}.unauthorised=two\nlines", "does not read back"),
    ],
)
def test_texts_that_cannot_attack_are_refused(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(override)
    assert said in str(caught.value)


def test_a_text_that_no_level_chooses_may_say_anything() -> None:
    unused = (f"{EFFECT}.carriers.neutral=Nothing to see", "study.texts.vehicles.long_document=Hello")
    assert expand("study.levels.strength=[imperative]", *unused) == 6
