"""A violation planted in an arm, through the command, the store and SQL: named, and in no count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from batched import Batched, on_row
from planting import plant

from analysis import warehouse
from analysis.__main__ import main as analyse
from orchestrator.__main__ import main
from workers import engine as engines
from workers.bench import Bench
from workers.engine import Handle

VERDICTS = ("effect", "effect_status", "is_flip", "layer1", "layer2", "is_cold_reply", "agreement")


def changes_its_parent(bench: Bench) -> Handle:
    state = bench.snapshot()
    bench.engine.feed(bench._retained[0], (1,))
    return state


def continues_a_pass(bench: Bench) -> Handle:
    state = bench.prefilled(bench.split.branched_ids)
    bench.engine.feed(state, bench.split.delta_ids)
    return state


PLANTED: dict[str, tuple[str, Callable[[Bench], Handle]]] = {
    "stale": ("storage_shared", lambda bench: bench._retained[1]),
    "fresh": ("class_crossed", lambda bench: bench.snapshot()),
    "text_present": ("prefix_reused", continues_a_pass),
    "truncate": ("prefix_differs", lambda bench: bench.cropped(len(bench.split.committed_ids) + 1)),
    "checkpoint": ("parent_changed", changes_its_parent),
}


def rows(store: Path, query: str) -> list[dict[str, object]]:
    with warehouse.connect(store) as answers:
        return answers.sql(query).to_pylist()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """The smallest grid in this process, so that what is planted here is what runs."""

    def command() -> Path:
        monkeypatch.chdir(tmp_path)
        where = "where=strength == 'imperative' and vehicle == 'user_turn'"
        assert main(["--quiet", "model=scripted", "executor=inline", "tracking=off", where]) == 0
        return tmp_path / "results"

    return command


def test_what_is_planted_in_an_arm_is_named_and_counts_nowhere(
    run: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arm, (_, prepare) in PLANTED.items():
        plant(monkeypatch, arm, prepare)
    store = run()
    found = rows(store, f"select arm, status, failed_checks, {', '.join(VERDICTS)} from trials where arm <> 'cold'")
    assert len(found) == 2 * len(PLANTED)
    for row in found:
        assert (row["status"], row["failed_checks"]) == ("invalid", PLANTED[str(row["arm"])][0])
        assert {name: row[name] for name in VERDICTS} == dict.fromkeys(VERDICTS)
    counts = "num_flips + num_judged + num_text_compared + num_cold_compared + num_layer1_intact + num_layer1_violated"
    census = rows(store, f"select arm, invalid, {counts} as counted from census where arm <> 'cold'")
    assert {(row["invalid"], row["counted"]) for row in census} == {(2, 0)}
    assert analyse(["--store", str(store), "checks"]) == 0


def test_where_cold_is_no_observation_nothing_is_a_flip(
    run: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "cold", lambda bench: bench.prefilled(bench.split.committed_ids))
    store = run()
    found = rows(store, "select arm, status, is_competent, is_flip from trials where kind = 'attack'")
    assert {str(row["arm"]): row["status"] for row in found}["cold"] == "invalid"
    assert {(row["is_competent"], row["is_flip"]) for row in found} == {(None, None)}


def test_without_a_plant_the_same_arms_are_done(run: Callable[[], Path]) -> None:
    store = run()
    assert rows(store, "select distinct status from trials") == [{"status": "done"}]
    assert rows(store, "select count(*) as flips from trials where is_flip") == [{"flips": 2}]


@pytest.mark.parametrize(("block_episodes", "num_invalid"), [(1, 6), (2, 12)])
def test_a_batch_that_gives_another_reply_ends_the_model_s_run_and_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    block_episodes: int,
    num_invalid: int,
) -> None:
    """The block in which it was seen is invalid, what was to come is missing, and neither is complete.

    lm-evaluation-harness#704, #3357: another batch size gave other results, and nothing said so.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "load", lambda spec, **_: Batched(spec, on_row(0)))
    said = ["model=scripted", "executor=inline", "tracking=off", f"block_episodes={block_episodes}", "limit=12"]
    said.append("decode_once=false")
    assert main(said) == 3
    assert "computed again alone, differs: another reply than" in " ".join(capsys.readouterr().out.split())
    found = rows(tmp_path / "results", "select status, failed_checks, count(*) n from trials group by all")
    assert found == [{"status": "invalid", "failed_checks": "batch_differs", "n": num_invalid}]
    missing = rows(tmp_path / "results", "select count(*) n from missing_trials where reason like 'batch_differs: %'")
    assert missing == [{"n": 12 - num_invalid}]
