"""A seal is the same for every honest repetition, and for nothing else."""

from __future__ import annotations

import json

import pytest

from analysis.__main__ import main


def sealed(store):
    assert main(["--store", str(store.root), "seal"]) == 0
    return json.loads((store.root / "seal.json").read_text())


def verified(store, seal, capsys):
    capsys.readouterr()
    return main(["--store", str(store.root), "verify", "--seal", str(seal)]), capsys.readouterr().out


def test_the_order_the_parts_the_times_and_the_hosts_do_not_matter(make_store):
    one, other = make_store("one"), make_store("other")
    rows = [*one.episode(flips=True), *one.episode(vehicle="tool_return")]
    one.store(*rows)
    moved = {"host": "elsewhere", "run_id": "run-9", "decode_ms": 9.5}
    for row in reversed(rows):
        other.record(other.later(row, **moved))
    other.run(rows)
    assert sealed(one) == sealed(other)


@pytest.mark.parametrize(
    "change",
    [{"reply": "SEND a TO c"}, {"effect_status": "violation"}, {"reply_ids": [1, 2]}, {"layer1": "violated"}],
    ids=lambda change: next(iter(change)),
)
def test_one_changed_word_is_found_and_its_model_named(make_store, change, capsys):
    one, other = make_store("one"), make_store("other")
    rows = [*one.episode(model="a"), *one.episode(model="b")]
    one.store(*rows)
    other.store(*(row | change if row["model"] == "b" and row["arm"] == "fresh" else row for row in rows))
    sealed(one)
    assert verified(one, one.root / "seal.json", capsys) == (0, "every trial is as it was sealed\n")
    code, said = verified(other, one.root / "seal.json", capsys)
    assert code == 3
    assert said.splitlines()[0] == "b: as many trials, and not the same"


def test_a_trial_more_a_trial_less_and_a_model_more_are_told_apart(make_store, capsys):
    one, other = make_store("one"), make_store("other")
    one.store(*one.episode(model="a"), *one.episode(model="b"))
    other.store(*one.episode(model="a"), one.trial(model="a", arm="truncate"), *one.episode(model="c"))
    sealed(one)
    _, said = verified(other, one.root / "seal.json", capsys)
    assert said.splitlines()[:3] == ["a: 5 trials, sealed were 4", "b: not in the store", "c: not in the seal"]


def test_a_seal_that_was_edited_is_found(make_store, capsys):
    store = make_store("one")
    store.store(*store.episode())
    seal = sealed(store)
    seal["models"]["m"]["sha256"] = "0" * 64
    edited = store.root / "edited.json"
    edited.write_text(json.dumps(seal))
    code, said = verified(store, edited, capsys)
    assert code == 3
    assert "the seal itself was changed" in said


def test_a_changed_byte_of_a_part_is_found(make_store, capsys):
    store = make_store("one")
    store.store(*store.episode())
    sealed(store)
    part = next(path for path in (store.root / "trials").rglob("part-*.parquet") if "empty" not in path.name)
    data = bytearray(part.read_bytes())
    data[data.index(b"send(desk)") + 5] ^= 1
    part.write_bytes(data)
    code, said = verified(store, store.root / "seal.json", capsys)
    assert code == 3
    assert "as many trials, and not the same" in said


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 9, "models": {}, "combined": ""}'])
def test_what_is_no_seal_is_one_line(make_store, text, capsys):
    store = make_store("one")
    store.store(*store.episode())
    (store.root / "seal.json").write_text(text)
    assert main(["--store", str(store.root), "verify"]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_an_empty_store_has_nothing_to_seal(make_store, capsys):
    assert main(["--store", str(make_store("one").root), "seal"]) == 1
    assert "nothing is recorded" in capsys.readouterr().err
