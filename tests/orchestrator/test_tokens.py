"""The estimate of tokens is near what rows record, for every arm, without a tokenizer."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator import config
from orchestrator.plan import Plan
from orchestrator.tokens import Estimate, Tokens, expected_split, prefill_tokens
from tests.orchestrator.unions import laid_out
from tests.planned import blocks
from tests.planned import planned as plan
from tests.planting import run
from workers import arms, engine
from workers.block import Row
from workers.split import Split

TOLERANCE = 0.35
OVERRIDES = ["model=random-llama", "study.levels.kind=[attack]", f"study.arms=[{','.join(arms.names())}]"]
EPISODES = "study.levels.vehicle=[tool_return,long_document]"


@pytest.fixture(scope="module")
def planned() -> Plan:
    composed = config.load([*OVERRIDES, EPISODES, "study.levels.strength=[imperative]"])
    return plan(laid_out(composed).cells)


@pytest.fixture(scope="module")
def rows(planned: Plan) -> dict[str, Row]:
    """cell_id → what was recorded of it."""
    (model,) = config.load(OVERRIDES).models
    loaded = engine.load(model, num_threads=1)
    works = [work for block in blocks(planned, 1)["random-llama"] for work in block.works]
    found = {}
    for work in works:
        cells = {trial.arm: trial.cell_id for trial in work.trials}
        found |= {cells[arm]: row for arm, row in run(loaded, work).items()}
    return found


def test_every_arm_is_estimated_within_the_stated_factor(planned: Plan, rows: dict[str, Row]) -> None:
    models = {model.name: model for model in config.load(OVERRIDES).models}
    estimate = Estimate(planned.cells, models)
    held = [(at, cell) for at, cell in enumerate(planned.cells) if rows[cell.cell_id]["status"] == "done"]
    assert {cell.arm for _, cell in held} >= {"stale", "fresh", "cold", "text_present", "truncate", "checkpoint"}
    for at, cell in held:
        recorded = rows[cell.cell_id]["prefill_tokens"]
        about = estimate.of(np.arange(len(planned)) == at).prefill
        assert abs(about - recorded) <= TOLERANCE * recorded, cell.arm


def test_no_reply_is_longer_than_was_said(planned: Plan, rows: dict[str, Row]) -> None:
    models = {model.name: model for model in config.load(OVERRIDES).models}
    at_most = Estimate(planned.cells, models).of(planned.cells.rows.num_draws).decode
    assert sum(row.get("decode_tokens") or 0 for row in rows.values()) <= at_most == 8 * len(planned)


def test_a_pass_is_counted_where_the_arm_makes_it() -> None:
    parts = Split((0,) * 100, (0,) * 20, (0,) * 7, "", delta_identical=True, carrier_absent=True)
    counts = {arm: prefill_tokens(arm, parts) for arm in ("fresh", "cold", "stale", "truncate", "text_present")}
    assert counts == {"fresh": 100, "cold": 107, "stale": 120, "truncate": 120, "text_present": 127}


def test_what_a_template_is_given_beside_the_messages_is_counted() -> None:
    composed = config.load(["model=scripted"])
    (model,) = composed.models
    episode = next(composed.spec.episodes(model))
    polite = model.model_copy(update={"acknowledgement": "Understood. " * 20})
    assert len(expected_split(episode, polite).branched_ids) > len(expected_split(episode, model).branched_ids)


def test_nothing_is_processed_for_no_trial(planned: Plan) -> None:
    assert Estimate(planned.cells, {}).of(np.zeros(len(planned.cells), dtype=np.int64)) == Tokens(0, 0)
