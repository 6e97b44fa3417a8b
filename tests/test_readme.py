"""What the README says is there, and what it shows works."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from editing import edited

from analysis.__main__ import main as analyse
from orchestrator import config
from orchestrator.__main__ import main as orchestrate

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = [block for kind, block in FENCE.findall(TEXT) if kind == "console"]
COMMANDS = [line for kind, block in FENCE.findall(TEXT) if kind == "bash" for line in block.splitlines()]


def arguments(prefix: str) -> list[list[str]]:
    found = [shlex.split(line, comments=True) for line in COMMANDS if line.startswith(prefix)]
    assert found
    return [words[3:] for words in found]


@pytest.mark.parametrize("overrides", arguments("python -m orchestrator"), ids=" ".join)
def test_every_orchestrator_command_composes(overrides: list[str]) -> None:
    composed = config.load(overrides)
    assert list(composed.spec.episodes(composed.models[0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of the default grid, without a model."""
    made = tmp_path_factory.mktemp("readme")
    store = f"store.root={made / 'results'}"
    assert orchestrate(["model=scripted", "executor=inline", "tracking=off", store, "--quiet"]) == 0
    return made


@pytest.mark.parametrize("command", arguments("python -m analysis"), ids=" ".join)
def test_every_analysis_command_answers(
    folder: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert analyse(command) == 0
    assert {"cost": "tenants"}.get(command[0], "stale") in capsys.readouterr().out


def shown(prefix: str) -> list[tuple[list[str], str]]:
    """Each command whose output is shown, and the last line of it."""
    found = []
    for block in SHOWN:
        for part in block.split("$ ")[1:]:
            command, *said = part.splitlines()
            if command.startswith(prefix):
                found.append((shlex.split(command)[3:], said[-1]))
    assert found
    return found


def test_what_is_sealed_altered_and_gated_ends_as_it_is_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On no model, so that ids, roots and counts are other ones: the words at the start of the last line are these."""
    monkeypatch.chdir(folder)
    assert analyse(["seal"]) == 0
    shutil.copytree("results", "altered")
    parts = Path("altered/trials/rollback").glob("part-*")
    part = next(part for part in parts if "truncate" in pq.read_table(part, partitioning=None)["arm"].to_pylist())
    edited(part, {"arm": "truncate", "kind": "attack"}, effect="send(red-canary)", effect_status="violation")
    codes = {}
    for command, last in shown("python -m analysis"):
        capsys.readouterr()
        codes[" ".join(command)] = analyse(command)
        said = capsys.readouterr().out.splitlines()[-1]
        assert re.split(r"[:,\d]", said)[0] == re.split(r"[:,\d]", last)[0], command
    assert codes == {
        "seal": 0,
        "verify": 0,
        "verify --store altered": 3,
        "diff results altered": 3,
        "gate": 0,
        "gate --store altered": 3,
    }


def test_a_run_cut_short_closes_the_gate_of_its_store_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    shutil.copytree("results", "beside")
    cut = ["model=scripted", "executor=inline", "tracking=off", "--quiet", "limit=12", "name=try"]
    fewer = "study.decode.max_new_tokens=23"  # cells of its own, or nothing would be missing
    assert analyse(["gate", "--store", "beside"]) == 0
    assert orchestrate([*cut, fewer, "store.root=own"]) == 0
    assert analyse(["gate", "--store", "beside"]) == 0
    assert orchestrate([*cut, fewer, "store.root=beside"]) == 0
    assert analyse(["gate", "--store", "beside"]) == 3


def test_each_orchestrator_command_whose_output_is_shown_composes() -> None:
    assert [words[0] for words, _ in shown("python -m orchestrator")] == ["mode=doctor", "mode=replay"]
    for words, _ in shown("python -m orchestrator"):
        assert config.load([word for word in words if not word.startswith("cell=")]).run.mode == words[0][5:]


def test_the_python_lines_read_the_results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (block,) = (block for kind, block in FENCE.findall(TEXT) if kind == "python")
    names: dict[str, object] = {}
    lengths = []
    for line in block.splitlines():
        exec(line, names)
        lengths.append(len(names[line.split()[0]]) if " = " in line else None)  # type: ignore[arg-type]
    assert [length for length in lengths if length is not None] == [108, 108, 108]


def test_the_tree_is_the_tree() -> None:
    (block,) = (block for kind, block in FENCE.findall(TEXT) if kind == "text" and "orchestrator/" in block)
    shown = {line.split("/")[0] for line in block.splitlines()}
    assert shown == {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"conf", "sql", "tests"}
    for folder in re.findall(r"(\w+)/", block):
        assert list(ROOT.glob(folder)) or list(ROOT.glob(f"*/{folder}")), folder


def test_every_grid_is_in_the_table() -> None:
    shown = set(re.findall(r"^\| `\+grid=(\w+)` \| \d+ \|", TEXT, re.MULTILINE))
    assert shown == {path.stem for path in (ROOT / "conf" / "grid").glob("*.yaml")}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
