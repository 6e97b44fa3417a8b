"""What CONTRIBUTING shows is run as it stands there, in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flow.project import REPOSITORY

SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^`([\w/.-]+)`\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)

TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text()
RECIPES = {title: body for title, body in SECTION.findall(TEXT) if title.startswith("A new ")}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages, with results whose cells no recipe shares."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("orchestrator", "workers", "analysis", "conf", "sql"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    run(folder, "python -m orchestrator model=scripted executor=inline tracking=off study.decode.max_new_tokens=23")
    return folder


def run(folder: Path, command: str) -> str:
    arguments = [sys.executable, *shlex.split(command)[1:]]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_of(title: str) -> list[str]:
    return [name for name, _ in FILE.findall(RECIPES[title]) if name.endswith(".py")]


def test_there_is_a_recipe_for_each_of_them() -> None:
    assert [re.sub(r"A new (\w+) .*", r"\1", title) for title in RECIPES] == [
        "model",
        "arm",
        "effect",
        "gate",
        "query",
        "study",
    ]


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works_as_it_stands(checkout: Path, title: str) -> None:
    files, commands = FILE.findall(RECIPES[title]), COMMANDS.findall(RECIPES[title])
    assert files
    assert commands
    for name, content in files:
        assert not (REPOSITORY / name).exists()
        (checkout / name).write_text(content)
    said = "".join(run(checkout, command) for block in commands for command in block.splitlines())
    assert said.strip()
    for kind, num_trials in {"model": 6, "arm": 36, "effect": 6, "gate": 6, "study": 6}.items():
        if f"new {kind}" in title:
            assert f"{num_trials} trials run" in said


@pytest.mark.parametrize("title", [title for title in RECIPES if python_of(title)])
def test_a_recipe_passes_the_checks_that_it_is_sent_through(checkout: Path, title: str) -> None:
    for name, content in FILE.findall(RECIPES[title]):
        (checkout / name).write_text(content)
    files = " ".join(python_of(title))
    for check in ("ruff check", "ruff format --check", "mypy --follow-imports=silent"):
        run(checkout, f"python -m {check} {files}")
