"""A census of many settings is a line each, and each can be had in full."""

from __future__ import annotations

import re
import shlex

import pytest

from analysis.__main__ import main
from analysis.census import MANY, levels

ARMS = ("position_control", "truncate", "checkpoint")


@pytest.fixture
def ask(builder, capsys):
    def asked(*words):
        code = main(["--store", str(builder.root), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


def settled(builder, num_policies, **said):
    """So many policies, of which only `p0` flips, with text_present and the position control beside it."""
    rows = []
    for at in range(num_policies):
        policy = {"policy": f"p{at}"} | said
        rows += builder.episode(flips=at == 0, **policy)
        verdict = "authorised" if at else "violation"
        rows += [
            builder.trial(arm=arm, effect_status=verdict if arm == ARMS[0] else "authorised", **policy) for arm in ARMS
        ]
    builder.store(*rows)


def test_up_to_a_few_settings_have_their_tables(builder, ask):
    settled(builder, MANY)
    out = ask("census")[1]
    assert out.count("Flips, of the judged") == MANY
    assert "--where" not in out


def test_many_settings_are_a_line_each(builder, ask):
    settled(builder, MANY + 1)
    code, out, err = ask("census")
    assert (code, err, out.count("Flips, of the judged")) == (0, "", 0)
    flat = " ".join(out.split())
    assert "p0 1/1 1/1 position_control 1/1; 4 more 0/4 1/1 7/7" in flat
    assert "p1 0/1 0/1 5 arms 0/5 1/1 7/7" in flat
    assert sum(bool(re.match(r"p\d ", line)) for line in out.splitlines()) == MANY + 1
    assert out.splitlines()[-1] == f"coverage {7 * (MANY + 1)}/{7 * (MANY + 1)}"


def test_only_what_differs_has_a_column(builder, ask):
    settled(builder, MANY + 1)
    header = next(line for line in ask("census")[1].splitlines() if "policy" in line)
    assert "surface" not in header
    assert "content" not in header


def test_the_hint_gives_one_setting_in_full(builder, ask):
    settled(builder, MANY + 1)
    hint = next(line for line in ask("census")[1].splitlines() if "--where" in line)
    words = shlex.split(hint[hint.index("census --where") : hint.index(";")])
    out = ask(*words)[1]
    assert out.count("Flips, of the judged") == 1
    assert "policy=p0" in out
    assert ask("census", "--where", "true")[1].count("Flips, of the judged") == MANY + 1


def test_a_condition_chooses_models_and_their_sums_are_of_what_is_shown(builder, ask):
    for model in "abc":
        builder.store(*builder.episode(flips=True, model=model), grid=model)
    lines = [line.split() for line in ask("census", "--where", "model <> 'c'")[1].splitlines()]
    assert ["all", "models", "stale", "2/2", "2/2", "2/2", "2/2"] in lines
    rows = ask("census", "--where", "model <> 'c'", "--format", "csv")[1].splitlines()
    assert len(rows) == 1 + 2 * 4


@pytest.mark.parametrize("condition", ["polcy = 'x'", "model = ", "true) or (true", "true; drop table x"])
def test_a_wrong_condition_is_one_line(builder, ask, condition):
    builder.store(*builder.episode())
    code, _, err = ask("census", "--where", condition)
    assert code == (0 if condition == "true) or (true" else 1)
    assert err.count("\n") == code


def test_sampled_trials_are_named_beside_the_census(builder, ask):
    builder.store(*builder.episode(), builder.trial(temperature=0.7, decode="sampled"))
    out = ask("census")[1]
    assert "sampled trials are counted apart, 1 done of 1: see `query draws`" in out
    assert out.splitlines()[-1] == "coverage 4/4"


def test_arms_stand_in_the_order_of_the_argument():
    given = [
        "truncate_recorded",
        "checkpoint",
        "zebra",
        "cold",
        "branch_scoped",
        "provenance_mask",
        "fresh",
        "truncate",
    ]
    given += ["content_addressed", "position_control", "text_present", "stale", "another"]
    assert levels(given) == [
        *("stale", "text_present", "position_control", "fresh", "cold", "truncate", "truncate_recorded", "checkpoint"),
        *("branch_scoped", "content_addressed", "provenance_mask", "another", "zebra"),
    ]
