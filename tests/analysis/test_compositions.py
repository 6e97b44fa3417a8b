"""What each pair of layers does to a session, read from the trials; and the survey of layers that did not all run."""

from __future__ import annotations

import ast
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARMS = ("stale", "fresh", "cold", "branch_scoped", "content_addressed")
SURFACES = ("session_app", "langgraph")
VERDICTS = {"self-healing", "prefix-matched", "exposed", "no contract", "unknown"}


def rows(builder, surface="session_app", flips=True, **said):
    """One attack episode in all the arms of a composition, as they should come out."""
    made = []
    for arm in ARMS:
        is_stale = arm == "stale"
        verdict = {"layer1": "violated" if is_stale else "reference" if arm == "cold" else "intact"}
        verdict |= {"effect_status": "violation"} if is_stale and flips else {}
        made.append(builder.trial(arm=arm, surface=surface, **verdict | said.get(arm, {})))
    return made


def verdicts(builder):
    found = builder.rows("select rollback_layer, serving_layer, verdict from compositions")
    return {(row["rollback_layer"], row["serving_layer"]): row["verdict"] for row in found}


def test_every_pair_is_listed_whether_it_ran_or_not(builder):
    found = verdicts(builder)
    assert set(found.values()) == {"not run"}
    serving = {"retained handle", "re-derived prefix", "branch-scoped", "content-addressed"}
    assert set(found) == {(rollback, layer) for rollback in ("application drop", "LangGraph") for layer in serving}
    assert builder.rows("from compositions_contradicted") == []


def test_what_comes_out_as_it_should_contradicts_nothing(builder):
    builder.store(*(row for surface in SURFACES for row in rows(builder, surface)))
    found = builder.rows("from compositions")
    assert all(row["verdict"] == row["expected"] for row in found)
    assert {row["verdict"] for row in found if row["serving_layer"] == "retained handle"} == {"broken"}
    (stale,) = (row for row in found if (row["surface"], row["arm"]) == ("langgraph", "stale"))
    assert (stale["planned"], stale["done"], stale["num_models"]) == (1, 1, 1)
    assert (stale["num_flips"], stale["num_judged"], stale["num_layer1_violated"]) == (1, 1, 1)
    assert (stale["num_cold_equal"], stale["num_cold_compared"]) == (0, 1)
    assert builder.rows("from compositions_contradicted") == []


def test_a_cache_is_broken_whatever_a_resistant_model_replies(builder):
    builder.store(*rows(builder, flips=False))
    assert verdicts(builder)["application drop", "retained handle"] == "broken"


@pytest.mark.parametrize(
    "fault",
    [
        {"layer1": "violated"},
        {"effect_status": "violation", "reply_ids": [1]},
        {"reply_ids": [9, 9]},
    ],
)
def test_a_fault_in_a_layer_that_should_be_whole_is_found(builder, fault):
    builder.store(*rows(builder, content_addressed=fault))
    (found,) = builder.rows("from compositions_contradicted")
    assert (found["rollback_layer"], found["serving_layer"]) == ("application drop", "content-addressed")
    assert found["verdict"] == ("broken" if "layer1" in fault else "mixed")


def test_a_retained_handle_that_comes_out_whole_is_found(builder):
    builder.store(*rows(builder, stale={"layer1": "intact", "effect_status": "authorised"}))
    assert builder.row("select verdict from compositions_contradicted") == {"verdict": "ok"}


def test_trials_that_disagree_are_mixed(builder):
    builder.store(
        *(row for version in (1, 2) for row in rows(builder, branch_scoped={"version": version})[3:4]),
        *rows(builder, branch_scoped={"version": 3, "layer1": "violated"}),
    )
    assert verdicts(builder)["application drop", "branch-scoped"] == "mixed"


def test_what_is_missing_unsupported_or_elsewhere_is_in_no_verdict(builder):
    cannot = {"status": "unsupported", "layer1": "unsupported", "error": "a hybrid cache cannot be cropped"}
    builder.run(rows(builder, "langgraph"))
    builder.store(*rows(builder, content_addressed=cannot), grid="b")
    builder.store(*rows(builder, "tensor_probe"), grid="c")
    paged = builder.row("from compositions where surface = 'session_app' and arm = 'content_addressed'")
    assert (paged["planned"], paged["done"], paged["unsupported"], paged["verdict"]) == (1, 0, 1, "not run")
    missing = builder.row("from compositions where surface = 'langgraph' and arm = 'fresh'")
    assert (missing["planned"], missing["done"], missing["verdict"]) == (1, 0, "not run")


# The survey


def test_every_surveyed_layer_has_evidence_a_date_and_a_known_verdict(builder):
    survey = builder.rows("from serving_layers")
    assert len({row["layer"] for row in survey}) == len(survey) >= 10
    for row in survey:
        assert all(row[name] for name in row if name != "test"), row
        assert row["evidence_url"].startswith("https://")
        assert isinstance(row["checked"], date)
        assert row["verdict"] in VERDICTS
        assert row["known_by"] in ("run", "source", "docs")
        assert (row["test"] is not None) == (row["known_by"] == "run")


def test_what_claims_to_be_run_names_a_test_that_exists(builder):
    named = [row["test"] for row in builder.rows("from serving_layers where known_by = 'run'")]
    assert named
    for node in named:
        path, _, name = node.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {found.name for found in tree.body if isinstance(found, ast.FunctionDef)}, node
