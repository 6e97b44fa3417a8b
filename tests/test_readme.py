"""What the README says is there, and what it shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from analysis.__main__ import main as analyse
from orchestrator import config
from orchestrator.__main__ import main as orchestrate

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
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
