"""Folders to run the command in, and a clean machine after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow.project import REPOSITORY, Project, ray_processes


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder of a user's."""
    return Project(tmp_path)


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
    return project.sealed()


@pytest.fixture(autouse=True)
def no_ray_left_behind() -> Iterator[None]:
    """Whatever a test kills, no process of its cluster stays to disturb the next."""
    before = {process.pid for process in ray_processes()}
    yield
    for process in ray_processes():
        if process.pid not in before:
            process.kill()
