"""One recorded trial computed once more: equal to its row, or different and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import replay
from orchestrator.command import main
from orchestrator.replay import Difference, verdict
from workers import parquet
from workers.store import Store
from workers.studies import get

Row = dict[str, Any]
STUDY = get("rollback")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one episode's trials."""
    root = tmp_path_factory.mktemp("replay") / "results"
    asked = ["model=scripted", "executor=inline", "tracking=off", "limit=6", f"store.root={root}"]
    assert main(["--quiet", *asked]) == 0
    return root


def part(root: Path) -> Path:
    [found] = [path for path in parquet.parts(Store(root).trials("rollback")) if parquet.read(path).num_rows]
    return found


def rows(root: Path) -> dict[str, Row]:
    return {row["arm"]: row for row in parquet.read(part(root)).to_pylist()}


def said(root: Path, capsys: pytest.CaptureFixture[str], cell: str) -> tuple[int, list[str]]:
    code = main(["mode=replay", f"cell={cell}", f"store.root={root}"])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def altered(root: Path, tmp_path: Path) -> Callable[..., tuple[Path, str]]:
    """A store of which one row says something else; the store, and the row's id."""

    def alter(arm: str, **changes: Any) -> tuple[Path, str]:
        table = parquet.read(part(root))
        found = [row | changes if row["arm"] == arm else row for row in table.to_pylist()]
        store = Store(tmp_path / "altered")
        store.prepare()
        parquet.commit(store.trials("rollback"), "altered", parquet.rows_to_table(found, table.schema))
        return store.root, next(row["cell_id"] for row in found if row["arm"] == arm)

    return alter


def test_every_honest_row_is_equal_to_its_replay(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arm, row in rows(root).items():
        code, lines = said(root, capsys, f"{row['cell_id']}/0")
        assert (code, lines[1:]) == (0, ["equal"])
        assert arm in lines[0]


def test_the_beginning_of_an_id_is_enough_where_it_is_one_cell_s(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = rows(root)["stale"]
    assert said(root, capsys, row["cell_id"][:12])[0] == 0


def test_an_altered_reply_is_different_and_the_first_token_is_named(
    altered: Callable[..., tuple[Path, str]], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = rows(root)["stale"]["reply_ids"]
    store, cell = altered("stale", reply_ids=[*ids[:2], ids[2] + 1, *ids[3:]])
    code, lines = said(store, capsys, cell)
    assert (code, lines[-1]) == (3, "different")
    assert any(line.strip().startswith("reply_ids: token 2 is ") for line in lines)


@pytest.mark.parametrize("changes", [{"layer1": "intact"}, {"effect_status": "refused"}, {"parent_intact": False}])
def test_an_altered_observation_is_different(
    altered: Callable[..., tuple[Path, str]], capsys: pytest.CaptureFixture[str], changes: Row
) -> None:
    store, cell = altered("stale", **changes)
    code, lines = said(store, capsys, cell)
    assert (code, lines[-1]) == (3, "different")
    assert any(next(iter(changes)) in line for line in lines)


def test_an_altered_question_is_told_before_anything_is_compared(
    altered: Callable[..., tuple[Path, str]], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episode = json.loads(rows(root)["cold"]["episode"])
    episode["finalize"][0]["text"] += " Please."
    store, cell = altered("cold", episode=json.dumps(episode))
    _, lines = said(store, capsys, cell)
    assert "  the row's episode is not what its identity was made of" in lines


def test_a_model_that_changed_since_is_told(
    altered: Callable[..., tuple[Path, str]], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = json.loads(rows(root)["cold"]["model_identity"]) | {"dtype": "float64"}
    store, cell = altered("cold", model_identity=json.dumps(model))
    _, lines = said(store, capsys, cell)
    assert "  the model changed since: dtype float64 → float32" in lines


def test_a_float_within_the_noise_is_told_apart_from_one_beyond_it(root: Path) -> None:
    row = rows(root)["stale"] | {"layer1_tolerance": 1e-5, "top2_margin": 1.0}

    def against(margin: float) -> str:
        again = row | {"top2_margin": margin}
        return verdict(replay.differences(row, again, STUDY, str))

    assert against(1.0) == "equal"
    assert against(1.0005) == "within the noise floor"
    assert against(1.01) == "different"


def test_one_difference_beyond_the_noise_decides() -> None:
    noise, other = Difference("top2_margin", "", is_noise=True), Difference("reply", "")
    assert verdict([noise]) == "within the noise floor"
    assert verdict([noise, other]) == "different"


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["mode=replay"], "mode=replay and cell=… go together"),
        (["cell=abc"], "mode=replay and cell=… go together"),
        (["mode=replay", "cell=zz"], "holds no such trial"),
        (["mode=replay", "cell=12e4"], "cell='12e4'"),
        (["mode=replay", "cell=abc/x"], "with /draw behind it"),
    ],
)
def test_a_wrong_cell_is_one_line(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], fragment: str
) -> None:
    assert main([*words, f"store.root={root}"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert fragment in line


def test_a_beginning_of_several_cells_is_refused(
    altered: Callable[..., tuple[Path, str]], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = rows(root)["stale"]["cell_id"]
    store, other = altered("cold", cell_id=stale[:8] + "0" * 24)
    assert main(["mode=replay", f"cell={stale[:8]}", f"store.root={store}"]) == 1
    err = capsys.readouterr().err
    assert "2 cells begin so" in err
    assert stale in err
    assert other in err
