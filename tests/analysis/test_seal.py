"""A seal is the same for every honest repetition, and what differs from it is named: file, row, column, plan, run."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from editing import edited

from analysis.__main__ import main
from analysis.errors import AnalysisError
from analysis.seal import document
from analysis.warehouse import connect
from workers.schema import arrow_schema
from workers.studies import rollback

SAME, OTHER_FILES = "the same result and the same bytes", "the same result in other files"


def sealed(store):
    assert main(["--store", str(store.root), "seal"]) == 0
    return json.loads((store.root / "seal.json").read_text())


@pytest.fixture
def verified(capsys):
    """Hold a store to a seal, its own or another's; the exit code and the lines."""

    def verify(store, seal=None, *words):
        capsys.readouterr()
        path = (seal or store).root / "seal.json"
        return main(["--store", str(store.root), "verify", "--seal", str(path), *words]), capsys.readouterr().out

    return verify


@pytest.fixture
def store(make_store):
    """A sealed store: two parts, a plan and a run."""
    made = make_store("store")
    rows = [*made.episode(flips=True), *made.episode(vehicle="tool_return")]
    made.record(*rows[:4])
    made.record(*rows[4:])
    made.run(rows, config='{"limit": 12}', command="python -m orchestrator")
    sealed(made)
    return made


def part(store, folder="trials/rollback", place=0):
    """A part that holds rows."""
    found = sorted((store.root / folder).glob("part-*.parquet"))
    return [path for path in found if pq.read_metadata(path).num_rows][place]


def lines(said, start):
    return [line for line in said.splitlines() if line.startswith(start)]


# The root


def test_the_order_the_parts_the_times_and_the_hosts_do_not_matter(make_store, verified):
    one, other = make_store("one"), make_store("other")
    rows = [*one.episode(flips=True), *one.episode(vehicle="tool_return")]
    one.store(*rows)
    moved = {"host": "elsewhere", "run_id": "run-1", "decode_ms": 9.5}
    for row in reversed(rows):
        other.record(other.later(row, **moved))
    other.run(rows)
    assert sealed(one)["root"] == sealed(other)["root"]
    code, said = verified(other, one)
    assert (code, lines(said, OTHER_FILES)) == (0, [said.splitlines()[-1]])


def test_every_sealed_column_and_no_other_counts(make_store):
    made, honest = make_store("one"), make_store("one").trial(arm="fresh", host="nothing")
    values = {"VARCHAR": "other", "BIGINT": 77, "DOUBLE": 0.75, "BOOLEAN": None, "INTEGER[]": [7, 7]}
    made.record(honest)
    with connect(made.root) as warehouse:
        columns, known = document.sealed_columns(made.root), document.types(warehouse, "trials_all")
        changed = sorted(known.keys() - {"host", "committed_at"})
        made.record(*(honest | {"host": name, name: values[known[name]]} for name in changed))
        found = warehouse.sql(document.digests("trials_all", columns, known, ["host"])).to_pylist()
    digests = {row["host"]: row["row"] for row in found}
    recorded = {*arrow_schema("rollback", rollback.STUDY.columns).names}
    assert {name for name in changed if digests[name] != digests["nothing"]} == recorded & {*columns}


def test_what_is_null_is_told_from_what_is_empty_and_values_from_their_neighbours(make_store):
    told = ({"reply": ""}, {"reply": None}, {"prefill_tokens": 7}, {"recomputed_tokens": 7}, {"error": "7"})
    roots = set()
    for at, said in enumerate(told):
        made = make_store(f"store-{at}")
        made.store(made.trial(**said))
        roots.add(sealed(made)["root"])
    assert len(roots) == len(told)


def test_a_column_that_a_later_version_adds_and_leaves_null_changes_nothing(store, verified):
    table = pq.read_table(part(store), partitioning=None)
    field = pa.field("later", pa.string(), metadata={"sealed": "true"})
    pq.write_table(table.append_column(field, pa.nulls(len(table), pa.string())), part(store))
    root = json.loads((store.root / "seal.json").read_text())["root"]
    assert verified(store)[0] == 0
    assert sealed(store)["root"] == root


def test_an_untouched_store_is_the_same_to_the_byte(store, verified):
    assert verified(store) == (0, f"{SAME}: 8 trials, root {sealed(store)['root']}\n")


# Parts


def test_a_store_whose_parts_were_joined_by_another_tool_has_the_same_result(store, verified):
    tables = [pq.read_table(part(store, place=at), partitioning=None) for at in (0, 1)]
    old = [part(store, place=at) for at in (0, 1)]
    joined = pa.concat_tables(tables).replace_schema_metadata(None).sort_by([("arm", "descending")])
    pq.write_table(joined, old[0].with_name("part-joined.parquet"), compression="gzip")
    for path in old:
        path.unlink()
    code, said = verified(store)
    assert code == 0
    assert [line.rpartition(": ")[2] for line in lines(said, "trials/")] == ["is gone", "is gone", "is not in the seal"]
    assert lines(said, OTHER_FILES)


@pytest.mark.parametrize(("place", "arm"), [(0, "fresh"), (1, "stale")])
def test_one_changed_value_is_found_in_its_file_row_and_column(store, verified, place, arm):
    path = part(store, place=place)
    row = edited(path, {"arm": arm}, reply="SEND a TO c")
    code, said = verified(store)
    assert code == 3
    name = f"trials/rollback/{path.name}"
    assert lines(said, "trials/") == [f"{name}: other bytes than were sealed"]
    found = lines(said, row["cell_id"])
    assert len(found) == 1
    assert found[0].endswith(f": changed in reply, in {name}")
    assert all(word in found[0] for word in (f"m, {arm},", row["vehicle"], row["episode_id"][:12], "/0 "))
    assert lines(said, "column") == ["column reply: differs in 1 row"]
    assert said.splitlines()[-1].startswith("not what was sealed")


def test_several_changed_columns_are_all_named(store, verified):
    row = edited(part(store), {"arm": "cold"}, effect_status="violation", reply_ids=[2], layer1="violated")
    _, said = verified(store)
    assert "changed in effect_status, layer1, reply_ids, in" in lines(said, row["cell_id"])[0]


def test_a_deleted_part_is_found_and_each_of_its_rows_is_gone(store, verified):
    path = part(store)
    cells = pq.read_table(path, partitioning=None)["cell_id"].to_pylist()
    path.unlink()
    code, said = verified(store)
    name = f"trials/rollback/{path.name}"
    assert (code, lines(said, "trials/")) == (3, [f"{name}: is gone"])
    for cell in cells:
        assert [line.rpartition(": ")[2] for line in lines(said, cell)] == [f"gone, in {name}"]
    assert "model m: 4 trials, sealed were 8" in said


def test_a_deleted_part_whose_rows_stand_in_another_is_a_warning(make_store, verified):
    made = make_store("twice")
    rows = made.episode()
    made.store(*rows)
    made.record(*rows)
    sealed(made)
    part(made).unlink()
    code, said = verified(made)
    assert (code, len(lines(said, "trials/")), len(lines(said, OTHER_FILES))) == (0, 1, 1)


@pytest.mark.parametrize("harm", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PAR1" * 9])
def test_a_damaged_part_is_found_and_the_rest_is_still_compared(store, verified, harm):
    path, other = part(store), part(store, place=1)
    path.write_bytes(harm(path.read_bytes()))
    row = edited(other, {"arm": "cold"}, reply="other")
    code, said = verified(store)
    assert code == 3
    assert f"trials/rollback/{path.name}: damaged: it cannot be read" in said
    assert lines(said, row["cell_id"])[0].endswith(f"changed in reply, in trials/rollback/{other.name}")
    assert said.count(f": gone, in trials/rollback/{path.name}") == 4


def test_a_damaged_part_is_no_mere_warning_where_its_rows_stand_in_another(make_store, verified):
    made = make_store("twice")
    rows = made.episode()
    made.store(*rows)
    made.record(*rows)
    sealed(made)
    part(made).write_bytes(b"torn")
    code, said = verified(made)
    assert (code, len(lines(said, "trials/"))) == (3, 1)
    assert "gone" not in said


def test_a_row_that_joins_the_result_is_found_and_one_that_nobody_asked_for_is_not_in_it(store, verified):
    store.record(store.trial(arm="truncate"))
    code, said = verified(store)
    assert (code, len(lines(said, OTHER_FILES))) == (0, 1)
    with connect(store.root) as warehouse:
        rows = warehouse.sql("from trials").to_pylist()
    added = store.trial(arm="truncate")
    store.run([*rows, added])
    code, said = verified(store)
    assert code == 3
    assert [line.partition(": ")[2].split(",")[0] for line in lines(said, added["cell_id"])] == ["added"]
    assert "latest plan of grid default: 9 trials, sealed were 8" in said
    assert "model m: 9 trials, sealed were 8" in said


def test_a_record_that_takes_another_s_place_in_all_but_its_content_is_found(make_store, verified):
    made = make_store("twice")
    rows = made.episode()
    made.store(*rows)
    sealed(made)
    made.record(rows[1])
    assert verified(made)[0] == 0
    made.record(rows[1] | {"reply": "other"})
    code, said = verified(made)
    assert (code, "model m: 5 trials, sealed were 4" in said) == (3, True)
    assert "changed in reply" in lines(said, rows[1]["cell_id"])[-1]


def test_models_that_came_and_went_are_named(make_store, verified):
    one, other = make_store("one"), make_store("other")
    one.store(*one.episode(model="a"), *one.episode(model="b"))
    other.store(*other.episode(model="a"), *other.episode(model="c"))
    sealed(one)
    _, said = verified(other, one)
    assert lines(said, "model") == ["model b: is not in the store", "model c: is not in the seal"]


# What was asked


def test_a_changed_plan_is_found(store, verified):
    edited(part(store, "plans"), 0, blocked="no weights")
    code, said = verified(store)
    assert code == 3
    assert f"plans/{part(store, 'plans').name}: other bytes than were sealed" in said
    assert "latest plan of grid default: as many trials, and not the same" in said
    assert not lines(said, "model")


def test_a_changed_configuration_is_found_and_a_lost_one_too(store, verified):
    edited(part(store, "runs"), 0, config='{"limit": 11}')
    code, said = verified(store)
    assert (code, lines(said, "run ")) == (3, ["run run-1: changed in config"])
    with connect(store.root) as warehouse:
        rows = warehouse.sql("from trials").to_pylist()
    part(store, "runs").unlink()
    store.run(rows)
    edited(part(store, "runs"), 0, run_id="run-9")
    said = verified(store)[1]
    assert "run run-1: is not in the store, nor is its configuration" in said
    assert "run run-9: came after the seal" in said


def test_a_run_that_came_later_and_found_nothing_to_do_takes_nothing_back(store, verified):
    with connect(store.root) as warehouse:
        rows = warehouse.sql("from trials").to_pylist()
    plans = set(store.root.glob("plans/*"))
    store.run(rows, plan_id="plan-1")
    # The same plan is one part, as the orchestrator names it by what it holds.
    for plan in set(store.root.glob("plans/*")) - plans:
        plan.unlink()
    code, said = verified(store)
    assert (code, lines(said, "run ")) == (0, ["run run-2: came after the seal"])


# The seal itself


@pytest.mark.parametrize(
    "edit",
    [
        lambda seal: seal.update(root="0" * 64),
        lambda seal: seal["models"]["m"].update(sha256="0" * 64),
        lambda seal: seal["files"].update({next(iter(seal["files"])): "0" * 64}),
        lambda seal: seal["runs"]["run-1"].pop("config"),
        lambda seal: seal.pop("sha256"),
    ],
)
def test_a_seal_that_was_edited_is_found(store, verified, edit):
    path = store.root / "seal.json"
    said = json.loads(path.read_text())
    edit(said)
    path.write_text(json.dumps(said))
    code, out = verified(store)
    assert code == 3
    assert out.startswith("seal.json: the seal itself was changed")


def test_a_root_that_was_edited_with_care_is_still_not_its_models(store, verified):
    path = store.root / "seal.json"
    said = json.loads(path.read_text())
    said = {name: value for name, value in said.items() if name != "sha256"} | {"root": "0" * 64}
    path.write_text(json.dumps(said | {"sha256": document.own_digest(said)}))
    code, out = verified(store)
    assert code == 3
    assert "its models' digests do not make its root" in out


def test_rows_beside_the_seal_that_were_changed_are_found_and_not_believed(store, verified):
    edited(store.root / "seal.parquet", 0, part="trials/rollback/part-other.parquet")
    code, said = verified(store)
    assert (code, lines(said, "seal.parquet")) == (3, ["seal.parquet: the rows beside the seal were changed"])
    edited(part(store), 0, reply="other")
    assert "nobody can tell which rows differ" in verified(store)[1]


def test_a_seal_alone_still_tells_same_from_different(store, verified):
    (store.root / "seal.parquet").unlink()
    assert verified(store)[0] == 0
    edited(part(store), 0, reply="other")
    code, said = verified(store)
    assert code == 3
    assert "nobody can tell which rows differ" in said


def test_a_seal_elsewhere_holds_with_its_rows(store, verified, tmp_path):
    kept = tmp_path / "it's [kept]"
    kept.mkdir()
    for end in ("json", "parquet"):
        shutil.move(store.root / f"seal.{end}", kept)
    row = edited(part(store), 0, reply="other")
    code, said = verified(store, type("Kept", (), {"root": kept}))
    assert (code, len(lines(said, row["cell_id"]))) == (3, 1)


def test_only_as_many_rows_are_named_as_are_asked_for(store, verified):
    for place in (0, 1):
        for row in range(4):
            edited(part(store, place=place), row, reply="other")
    assert "and more: 8 rows differ" in verified(store, None, "--rows", "2")[1]
    assert verified(store, None, "--rows", "2")[1].count("changed in reply") == 2
    assert verified(store)[1].count("changed in reply") == 8
    assert lines(verified(store, None, "--rows", "0")[1], "column") == ["column reply: differs in 8 rows"]


@pytest.mark.parametrize("count", ["-1", "x", "1.5", ""])
def test_a_count_that_is_none_is_one_line(store, capsys, count):
    assert main(["--store", str(store.root), "verify", f"--rows={count}"]) == 1
    assert "invalid natural value" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1


def test_a_program_gets_every_finding(store, verified):
    edited(part(store), 0, reply="other")
    code, said = verified(store, None, "--format", "json")
    found = json.loads(said)
    assert (code, found["is_same"], found["root"] == found["sealed_root"]) == (3, False, False)
    assert {finding["kind"] for finding in found["findings"]} == {"file", "result", "row", "column"}


def test_hostile_names_are_text(make_store, verified):
    hostile = "\x1b[2Jm\u202e'\""
    made = make_store("hostile")
    made.store(*made.episode(model=hostile, vehicle=hostile))
    sealed(made)
    edited(part(made), 0, reply=hostile)
    code, said = verified(made)
    assert code == 3
    assert not set(said) & set("\x1b\u202e")


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"form": 2, "models": []}', "\x00", "[" * 100_000])
def test_what_is_no_seal_is_one_line(store, text, capsys):
    (store.root / "seal.json").write_text(text)
    capsys.readouterr()
    assert main(["--store", str(store.root), "verify"]) == 1
    assert capsys.readouterr().err.startswith("error: not a seal")


@pytest.mark.parametrize("key", ["root", "num_trials", "models", "plans", "runs", "files", "columns", "rows"])
def test_whatever_stands_in_a_seal_it_is_refused_or_found_to_be_edited(store, verified, key):
    path = store.root / "seal.json"
    honest = json.loads(path.read_text())
    strange = [None, 3, "x", [], {}, [None], ["\ud800"], ["\x00"], ["a\"b'c"], {"m": 3}, {"m": {"num_rows": "x"}}]
    for value in strange:
        said = {name: held for name, held in honest.items() if name != "sha256"} | {key: value}
        path.write_text(json.dumps(said))
        assert verified(store)[0] in (1, 3), value
        if key != "root":
            path.write_text(json.dumps(said | {"sha256": document.own_digest(said)}))
            assert verified(store)[0] in (0, 1, 3), value


def test_a_seal_of_fewer_columns_than_its_rows_is_no_traceback(store, verified):
    path = store.root / "seal.json"
    said = {name: held for name, held in json.loads(path.read_text()).items() if name != "sha256"}
    said["columns"] = said["columns"][:3]
    path.write_text(json.dumps(said | {"sha256": document.own_digest(said)}))
    edited(part(store), 0, reply="other")
    code, out = verified(store)
    assert code == 3
    assert "column number " in out


def test_a_seal_of_an_older_form_says_to_seal_anew(store, capsys):
    (store.root / "seal.json").write_text('{"form": 1, "models": {}, "combined": ""}')
    assert main(["--store", str(store.root), "verify"]) == 1
    assert "form 1" in (said := capsys.readouterr().err)
    assert "seal the store anew" in said


def test_a_store_without_a_seal_says_how_to_make_one(store, capsys):
    (store.root / "seal.json").unlink()
    assert main(["--store", str(store.root), "verify"]) == 1
    assert "`python -m analysis seal` writes one" in capsys.readouterr().err


def test_an_empty_store_has_nothing_to_seal(make_store, capsys):
    made = make_store("one")
    assert main(["--store", str(made.root), "seal"]) == 1
    assert "nothing is recorded" in capsys.readouterr().err
    assert not list(made.root.glob("seal*"))


def test_a_store_in_which_a_run_is_at_work_is_not_sealed(store, monkeypatch, capsys):
    honest = document.sha256_of

    def late(path):
        if path.suffix == ".tmp":
            store.record(store.trial(arm="truncate"))
        return honest(path)

    before = (store.root / "seal.json").read_bytes()
    monkeypatch.setattr(document, "sha256_of", late)
    assert main(["--store", str(store.root), "seal"]) == 1
    assert "changed while it was being sealed" in capsys.readouterr().err
    assert (store.root / "seal.json").read_bytes() == before
    assert not list(store.root.glob("*.tmp"))


def test_a_damaged_part_is_not_sealed(store):
    part(store).write_bytes(b"torn")
    with pytest.raises(AnalysisError, match="damaged part"), connect(store.root) as warehouse:
        document.take(warehouse, store.root / "rows")
