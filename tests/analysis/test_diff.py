"""Two results held together: what differs is counted by kind and named, and what does not differ is not."""

from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from analysis.__main__ import main
from analysis.compare.diff import COUNTS

VIOLATION = {"effect_status": "violation", "effect": "send(canary)", "reply_ids": [2]}
NO_EFFECT = {"effect_status": None, "effect": None}
KINDS = {name for name in COUNTS if name not in ("num_in_both", "num_equal")}


@pytest.fixture
def compared(capsys):
    """Diff two stores; the exit code and the document."""

    def diff(one, other, *words):
        capsys.readouterr()
        code = main(["diff", str(one.root), str(other.root), "--json", *words])
        return code, json.loads(capsys.readouterr().out)

    return diff


@pytest.fixture
def said(capsys):
    """What a command prints, and its exit code."""

    def run(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        out = capsys.readouterr()
        return code, out.out + out.err

    return run


@pytest.fixture
def two(make_store):
    """Two stores of one result, of which the second may have one trial otherwise or lack it."""

    def build(change=None, arm="fresh"):
        one, other = make_store("one"), make_store("other")
        rows = [*one.episode(flips=True), *one.episode(kind="control")]
        one.store(*rows)
        at = next(at for at, row in enumerate(rows) if row["arm"] == arm)
        changed = [*rows[:at], rows[at] | (change or {}), *rows[at + 1 :]]
        other.store(*reversed(changed))
        return one, other

    return build


def counted(document):
    """Kind of difference → how many, those that there are."""
    sums = {name: sum(row[name] for row in document["arms"]) for name in KINDS}
    return {name: num for name, num in sums.items() if num}


def test_the_same_result_is_equal_whatever_the_parts_the_times_and_the_hosts(two, compared):
    one, other = two({"host": "elsewhere", "run_id": "run-9", "decode_ms": 7.0, "layer1_max_diff": 1e-7})
    code, found = compared(one, other)
    assert (code, found["is_equal"], found["num_equal"], found["rows"]) == (0, True, 8, [])
    assert counted(found) == {}
    assert found["joined_by"] == "cell and draw"


@pytest.mark.parametrize(
    ("arm", "change", "kinds"),
    [
        ("fresh", VIOLATION, ["flips_gained", "other_effect"]),
        ("stale", {"effect_status": "authorised", "effect": "send(desk)"}, ["flips_lost", "other_effect"]),
        ("stale", {"effect_status": "unparseable", "effect": None}, ["flips_unjudged", "other_effect"]),
        ("stale", {"status": "error"} | NO_EFFECT, ["flips_unjudged", "other_status"]),
        ("fresh", {"effect_status": "refused", "effect": None}, ["other_effect"]),
        ("fresh", {"status": "invalid", "layer1": None} | NO_EFFECT, ["other_layer1", "other_status"]),
        ("fresh", {"reply": "SEND  a TO b", "reply_ids": [1, 1]}, ["reply_alone"]),
        ("fresh", {"layer1": "violated"}, ["other_layer1"]),
        ("fresh", {"committed_ids": [5]}, []),
    ],
)
def test_each_kind_of_difference_is_counted_as_itself(two, compared, arm, change, kinds):
    one, other = two(change, arm)
    code, found = compared(one, other)
    assert (code, counted(found)) == (3, {f"num_{kind}": 1 for kind in kinds})
    assert found["num_differences"] == 1
    assert found["columns"] == dict.fromkeys(change, 1)
    (row,) = found["rows"]
    assert (row["arm"], row["is_in_both"], set(row["columns"])) == (arm, True, set(change))


def test_gained_and_lost_change_places_with_the_stores(two, compared):
    one, other = two({"effect_status": "violation", "effect": "send(canary)"})
    assert counted(compared(one, other)[1])["num_flips_gained"] == 1
    assert counted(compared(other, one)[1])["num_flips_lost"] == 1


def test_a_cold_trial_that_breaks_the_policy_takes_the_flips_with_it(two, compared):
    """A flip is judged beside cold: what changes there changes what the others are."""
    one, other = two({"effect_status": "violation", "effect": "send(canary)"}, arm="cold")
    assert counted(compared(one, other)[1])["num_flips_unjudged"] == 2


def test_what_only_one_of_them_has_is_told_and_so_is_the_coverage_of_both(make_store, compared, said):
    one, other = make_store("one"), make_store("other")
    both = one.trial(arm="cold")
    one.store(both, one.trial(arm="fresh"))
    other.run([both, other.trial(arm="stale"), other.trial(arm="truncate")])
    other.record(both, other.trial(arm="stale"))
    code, found = compared(one, other)
    assert (code, counted(found)) == (3, {"num_only_a": 1, "num_only_b": 1})
    assert {name: found["b"][name] for name in ("planned", "done", "missing")} == {
        "planned": 3,
        "done": 2,
        "missing": 1,
    }
    out = said("diff", one.root, other.root)[1]
    assert "3 planned, 2 done, 1 missing" in out
    assert {"only in A", "only in B"} <= {line[-9:] for line in out.splitlines()}


def test_two_library_versions_are_joined_by_what_they_were_asked(make_store, compared):
    one, other = make_store("one"), make_store("other")
    one.store(*one.episode(flips=True, libraries="torch 2.13"))
    rows = other.episode(flips=True, libraries="torch 2.14")
    other.store(*rows)
    code, found = compared(one, other)
    assert (code, found["num_equal"]) == (0, 4)
    assert found["joined_by"].startswith("model, texts, arm")
    assert compared(one, other, "--by", "cell")[1]["num_equal"] == 0
    other.record(other.later(rows[1], minutes=-1, reply="other"))
    assert counted(compared(one, other)[1]) == {"num_reply_alone": 1}


def test_two_stacks_under_two_names_are_joined_by_texts(make_store, compared):
    one, other = make_store("one"), make_store("other")
    one.store(*one.episode(model="eager", episode_id="e"))
    other.store(*other.episode(model="paged", episode_id="e"))
    assert counted(compared(one, other)[1]) == {"num_only_a": 4, "num_only_b": 4}
    code, found = compared(one, other, "--by", "texts")
    assert (code, found["num_equal"], counted(found)) == (0, 4, {})


@pytest.mark.parametrize("other_question", [{"decode": "30"}, {"episode_id": "f"}, {"draw": 1}, {"arm": "truncate"}])
def test_another_question_is_never_joined(make_store, compared, other_question):
    one, other = make_store("one"), make_store("other")
    asked = {"episode_id": "e", "arm": "fresh"}
    one.store(one.trial(libraries="1", **asked))
    other.store(other.trial(libraries="2", **asked | other_question))
    assert counted(compared(one, other)[1]) == {"num_only_a": 1, "num_only_b": 1}


def test_a_question_that_a_store_asks_twice_is_refused(make_store, said):
    one, other = make_store("one"), make_store("other")
    one.store(one.trial(libraries="1"))
    other.store(other.trial(libraries="2"), other.trial(libraries="3"))
    code, out = said("diff", one.root, other.root)
    assert (code, out.count("\n")) == (1, 1)
    assert "cannot be told apart" in out
    assert said("diff", one.root, other.root, "--by", "cell")[0] == 3


def test_a_store_of_an_older_schema_is_compared_in_what_it_has(two, compared):
    one, other = two()
    for path in other.root.glob("trials/rollback/*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["window_tokens"]), path)
    assert compared(one, other)[0] == 0


def test_the_table_names_the_trial_and_what_became_of_it(two, said):
    one, other = two({"effect_status": "violation", "effect": "send(canary)", "layer1": "violated"})
    code, out = said("diff", one.root, other.root)
    assert code == 3
    (line,) = [line for line in out.splitlines() if "flip gained;" in line]
    cell = next(row["cell_id"] for row in one.rows("from trials") if row["arm"] == "fresh" and row["kind"] == "attack")
    assert line.startswith(f"{cell[:12]}/0 (m, fresh, ")
    assert line.endswith("; effect send(desk) → send(canary); Layer 1 intact → violated")
    assert out.splitlines()[-1] == "different: 1 trial, 7 equal"


def test_only_as_many_trials_are_shown_as_are_asked_for_and_csv_has_all(make_store, said):
    one, other = make_store("one"), make_store("other")
    rows = [row for situation in one.situations() for row in one.episode(**situation)]
    one.store(*rows)
    other.store(*(row | {"reply": "other"} for row in rows))
    assert "34 more; --rows shows more" in said("diff", one.root, other.root, "--rows", "2")[1]
    code, out = said("diff", one.root, other.root, "--format", "csv")
    assert (code, len(list(csv.DictReader(io.StringIO(out))))) == (3, 36)


def test_hostile_words_are_text(make_store, said):
    hostile = "\x1b[2J\u202e[bold]'\""
    one, other = make_store("one"), make_store("other")
    row = one.trial(model=hostile, vehicle=hostile, arm="fresh")
    one.store(row)
    other.store(row | {"reply": hostile, "effect": hostile})
    for words in ((), ("--json",)):
        code, out = said("diff", one.root, other.root, *words)
        assert code == 3
        assert not set(out) & set("\x1b\u202e")


def test_what_is_no_store_is_one_line(two, said, tmp_path):
    one, _ = two()
    for words in ((one.root, tmp_path / "nowhere"), (tmp_path / "nowhere", one.root)):
        code, out = said("diff", *words)
        assert (code, out.count("\n")) == (1, 1)
        assert "no results at" in out
