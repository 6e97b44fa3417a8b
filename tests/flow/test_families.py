"""Layer 1 on every cache family, by the command: 37 architectures, two attacks, all the way to the views."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import analysis
from analysis.views import names
from orchestrator import config
from orchestrator.__main__ import main
from orchestrator.config_sources import CONF
from workers.bench import Bench
from workers.engine import Handle
from workers.engine import cache as kv

Row = dict[str, Any]

GROUPS = {
    "full": (
        *("llama", "qwen2", "qwen3", "phi3", "glm", "glm4", "granite", "seed-oss", "smollm3", "gpt2"),
        *("qwen3-moe", "mixtral", "deepseek-v2", "deepseek-v3", "deepseek-v3.2"),
    ),
    "sliding": ("mistral", "gemma2", "gemma3", "gemma3n", "gpt-oss", "cohere2", "olmo3"),
    "chunked": ("llama4",),
    "hybrid": (
        *("jamba", "bamba", "granite4", "qwen3-next", "qwen3.5"),
        *("falcon-h1", "nemotron-h", "zamba2", "olmo-hybrid", "kimi-linear"),
    ),
    "recurrent": ("mamba", "falcon-mamba", "mamba2"),
    "conv": ("lfm2",),
}
FAMILY = {f"random-{name}": family for family, names in GROUPS.items() for name in names}
RECURRENT = [model for model, family in FAMILY.items() if family in ("hybrid", "recurrent")]
WINDOWED = [model for model, family in FAMILY.items() if family in ("sliding", "chunked")]
FORGETFUL = {"random-gemma3n", "random-llama4"}
"""No plain cache fits them, and the one that does drops what is behind the window: no crop can bring it back."""

every_model = pytest.mark.parametrize("model", FAMILY)
recurrent_models = pytest.mark.parametrize("model", RECURRENT)
windowed_models = pytest.mark.parametrize("model", WINDOWED)


def run(root: Path, *arguments: str) -> list[Row]:
    """The command in this process, and what `trials` then holds."""
    fixed = ("executor=inline", "tracking=off", f"store.root={root}", "--quiet")
    assert main(["+grid=families", *fixed, *arguments]) == 0
    return query(root, "from trials order by model, vehicle, arm")


def query(root: Path, sql: str) -> list[Row]:
    with analysis.connect(root) as warehouse:
        rows: list[Row] = warehouse.sql(sql).to_pylist()
    return rows


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families") / "results"


@pytest.fixture(scope="module")
def rows(root: Path) -> list[Row]:
    return run(root, "where=kind == 'attack'")


@pytest.fixture(scope="module")
def of(rows: list[Row]) -> Callable[..., list[Row]]:
    """Model and arms → its rows; there are some."""

    def found(model: str, *arms: str) -> list[Row]:
        mine = [row for row in rows if row["model"] == model and row["arm"] in arms]
        assert len(mine) == 2 * len(arms)
        return mine

    return found


Of = Callable[..., list[Row]]


def test_the_grid_is_these_families_and_more_than_28_architectures() -> None:
    models = config.load(["+grid=families"]).models
    assert {model.name for model in models} == set(FAMILY)
    assert len({model.source.architecture for model in models if model.source.kind == "random"}) >= 28


@every_model
def test_the_cache_family_is_recorded(of: Of, model: str) -> None:
    assert {row["cache_family"] for row in of(model, "stale")} == {FAMILY[model]}


@every_model
def test_a_branch_that_is_kept_is_seen(of: Of, model: str) -> None:
    assert {row["layer1"] for row in of(model, "stale", "text_present")} == {"violated"}


@every_model
def test_a_saved_and_a_rebuilt_state_are_the_committed_state_exactly(of: Of, model: str) -> None:
    measured = {(row["layer1"], row["layer1_max_diff"]) for row in of(model, "checkpoint", "fresh")}
    assert measured == {("intact", 0.0)}


@every_model
def test_a_crop_is_intact_exactly_where_the_state_was_rolled_back(of: Of, model: str) -> None:
    for row in of(model, "truncate"):
        num_explored = len(row["committed_ids"]) + len(row["branch_ids"])
        is_behind = model in FORGETFUL and num_explored >= row["window_tokens"]
        if FAMILY[model] in ("full", "sliding", "chunked") and not is_behind:
            assert (row["status"], row["layer1"], row["layer1_max_diff"]) == ("done", "intact", 0.0)
            assert row["cache_length"] == len(row["committed_ids"])
        else:
            assert (row["status"], row["layer1"], row["effect_status"]) == ("unsupported", "unsupported", None)
            assert f"a {FAMILY[model]} cache cannot be cropped" in row["error"]
            assert "does not track past states" in row["error"] or "cannot be rolled back" in row["error"]


@every_model
def test_a_crop_that_reports_success_is_believed_only_where_it_is_true(of: Of, model: str) -> None:
    expected = "violated" if model in RECURRENT else "intact"
    for row in of(model, "truncate_recorded"):
        assert (row["status"], row["layer1"]) == ("done", expected)
        if expected == "intact":
            # The session is computed alone and the reference in a batch: only invariant kernels give the same bits.
            assert row["layer1_max_diff"] <= (0.0 if row["kernels"] == "invariant" else row["layer1_tolerance"])
        assert row["cache_length"] == len(row["committed_ids"])


@windowed_models
def test_the_long_branch_pushes_every_window_past_its_size(of: Of, model: str) -> None:
    (row,) = (row for row in of(model, "stale") if row["vehicle"] == "long_document")
    num_committed, num_branch = len(row["committed_ids"]), len(row["branch_ids"])
    is_crossed_by_the_branch = num_committed <= row["window_tokens"] < num_committed + num_branch
    is_emptied_of_the_committed = row["window_tokens"] <= num_branch
    assert is_crossed_by_the_branch or is_emptied_of_the_committed


def test_windows_are_crossed_in_both_ways(root: Path, rows: list[Row]) -> None:
    crossed = query(root, "select model from families where num_window_crossed > 0")
    emptied = query(root, "select model from families where num_window_emptied > 0")
    assert {"random-mistral", "random-llama4"} <= {row["model"] for row in crossed}
    assert {"random-gemma2", "random-gpt-oss"} <= {row["model"] for row in emptied}


@every_model
def test_an_intact_cache_replies_as_cold_does(of: Of, model: str) -> None:
    """Proposition 1, by reply ids."""
    arms = ("stale", "fresh", "truncate", "truncate_recorded", "checkpoint")
    intact = [row for row in of(model, *arms) if row["layer1"] == "intact"]
    assert len(intact) >= 4
    assert all(row["is_cold_reply"] for row in intact)


@every_model
def test_stale_replies_as_if_the_branch_were_there(of: Of, model: str) -> None:
    replies = [(row["vehicle"], row["reply_ids"]) for row in of(model, "stale")]
    assert replies == [(row["vehicle"], row["reply_ids"]) for row in of(model, "text_present")]


def test_no_check_finds_a_fault(root: Path, rows: list[Row]) -> None:
    assert {name: query(root, f"from {name}") for name in names("checks")} == {name: [] for name in names("checks")}
    close = query(
        root, "select distinct n.arm, t.kernels from layer1_within_noise n join trials t using (cell_id, draw)"
    )
    assert close in ([], [{"arm": "truncate_recorded", "kernels": "stock"}])


@recurrent_models
def test_a_leak_of_a_small_state_is_as_large_as_any(model: str, small: Callable[[str], list[Row]]) -> None:
    assert [row["layer1"] for row in small(model)] == ["violated"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Row]]:
    """The recurrent families once more, with weights so small that their states are of the order of 1e-9."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "model").mkdir()
    for name in RECURRENT:
        text = (CONF / "model" / f"{name}.yaml").read_text()
        small_text = text.replace("source:\n", "source:\n  weight_scale: 0.05\n")
        (folder / "model" / f"small-{name}.yaml").write_text(small_text)
    models = ",".join(f"small-{name}" for name in RECURRENT)
    where = "where=kind == 'attack' and vehicle == 'tool_return' and arm == 'truncate_recorded'"
    found = run(folder / "results", f"model={models}", where, "--config-dir", str(folder))
    return lambda model: [row for row in found if row["model"] == f"small-{model}"]


@pytest.mark.parametrize("share", [1e-3, 1.0])
def test_a_small_share_of_the_branch_in_a_saved_state_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    def leaky(bench: Bench) -> Handle:
        saved, explored = (bench.engine.fork(handle) for handle in bench._retained)
        dirty = dict(kv.tensors(explored.cache))  # type: ignore[attr-defined]
        with torch.inference_mode():
            for name, state in kv.tensors(saved.cache):  # type: ignore[attr-defined]
                if "recurrent" in name:
                    state += share * (dirty[name] - state)
        return saved

    monkeypatch.setattr(Bench, "snapshot", leaky)
    where = "where=kind == 'attack' and vehicle == 'tool_return' and arm in ('checkpoint', 'cold')"
    rows = run(tmp_path / "results", "model=[random-falcon-h1,random-mamba2]", where)
    leaked = [row for row in rows if row["arm"] == "checkpoint"]
    assert [(row["status"], row["layer1"]) for row in leaked] == [("done", "violated")] * 2
    assert {row["arm"] for row in query(tmp_path / "results", "from layer1_implausible")} == {"checkpoint"}
