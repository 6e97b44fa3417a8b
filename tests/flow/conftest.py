"""Folders to run the command in, and a clean machine after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow.project import REPOSITORY, Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty folder of a user's; whatever a test kills, nothing of it stays to disturb the next."""
    made = Project(tmp_path)
    yield made
    made.end()


@pytest.fixture
def slow(project: Project) -> Project:
    """A folder with a model that takes its time, so that a run can be met in its middle."""
    text = (REPOSITORY / "conf" / "model" / "scripted.yaml").read_text()
    project.add_model("slow", text.replace("kind: scripted", "kind: scripted\n  decode_ms: 60"))
    return project


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """The sealed columns of the default grid on the slow model, when nothing went wrong."""
    project = Project(tmp_path_factory.mktemp("undisturbed"))
    text = (REPOSITORY / "conf" / "model" / "scripted.yaml").read_text()
    project.add_model("slow", text)
    assert project.run("model=slow", "executor=inline").returncode == 0
    project.end()
    return project.sealed()
