"""Who may import what. A library or package has few doors; everything else does without it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "workers", "analysis")

ENGINE = ("workers/engine/*",)
LANGGRAPH = ("workers/surfaces/langgraph/*",)
_IN_COLUMNS = ("ids", "catalogue", "rows", "cells", "grid", "plan", "blocks", "tokens", "run")
DOORS = {
    # Ours: workers know nobody, analysis meets the rest only through Parquet, the orchestrator asks it for little.
    "workers": ("workers/*", "orchestrator/*"),
    "analysis": (
        "analysis/*",
        "orchestrator/command.py",
        "orchestrator/answers.py",
        "orchestrator/tracking/*",
        "orchestrator/estimate.py",
    ),
    "orchestrator": ("orchestrator/*",),
    # What computes. Not in arms/ or studies/, so planning and most tests run in seconds.
    "torch": ENGINE,
    "transformers": ENGINE,
    "tokenizers": ENGINE,
    "safetensors": ENGINE,
    "gguf": ENGINE,
    "xxhash": ENGINE,
    "jinja2": (*ENGINE, "analysis/report/page.py"),
    "markupsafe": ("analysis/report/page.py",),
    # Of the driver only what handles a million cells at once.
    "numpy": (
        *ENGINE,
        "workers/stream.py",
        *(f"orchestrator/{name}.py" for name in _IN_COLUMNS),
    ),
    "tqdm": ENGINE,
    # A surface. Its modules are imported when a session opens.
    "langgraph": LANGGRAPH,
    "langchain_core": LANGGRAPH,
    "langsmith": LANGGRAPH,
    # What places, watches, composes, stores and counts.
    "ray": ("orchestrator/executors/ray/*",),
    "wandb": ("orchestrator/tracking/wandb.py",),
    "hydra": ("orchestrator/config*.py",),
    "omegaconf": ("orchestrator/config*.py",),
    "yaml": ("orchestrator/config*.py", "workers/agentdojo.py"),
    "pyarrow": ("workers/parquet.py", "workers/schema.py", "workers/store.py", "analysis/*"),
    "duckdb": ("analysis/warehouse.py",),
    # Light, and used for what they are.
    "pydantic": ("workers/*", "orchestrator/*"),
    "rich": ("orchestrator/*", "analysis/*"),
}
HEAVY = ("torch", "transformers", "langgraph", "langchain_core", "ray", "wandb", "duckdb")


def imported(source: str, package: str) -> Iterator[str]:
    """Top-level names that a file imports: in functions, for type checking only and by literal name, too."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=module, level=level):
                yield package if level or module is None else module.partition(".")[0]
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield package if name.startswith(".") else name.partition(".")[0]


def trespasses(source: str, path: str) -> list[str]:
    """What the file at `path` imports although no door of it is there."""
    names = set(imported(source, path.partition("/")[0])) - sys.stdlib_module_names
    return sorted(name for name in names if not any(fnmatchcase(path, door) for door in DOORS.get(name, ())))


def modules() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", modules())
def test_every_import_goes_through_its_door(path: str) -> None:
    assert trespasses((ROOT / path).read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    ("path", "source", "name"),
    [
        ("workers/cell.py", "import torch", "torch"),
        ("workers/cell.py", "import torch.nn.functional as F", "torch"),
        ("workers/arms/stale.py", "def f():\n    from transformers import DynamicCache", "transformers"),
        ("workers/studies/rollback/judge.py", "if TYPE_CHECKING:\n    from pyarrow import Table", "pyarrow"),
        ("workers/surfaces/session_app.py", "from langgraph.graph import StateGraph", "langgraph"),
        ("workers/worker.py", "import json, ray", "ray"),
        ("workers/worker.py", "from orchestrator.plan import plan", "orchestrator"),
        ("workers/worker.py", "try:\n    import wandb\nexcept ImportError:\n    pass", "wandb"),
        ("workers/store.py", "importlib.import_module('duckdb')", "duckdb"),
        ("workers/store.py", "import_module('analysis.warehouse')", "analysis"),
        ("analysis/tables.py", "__import__('duckdb')", "duckdb"),
        ("analysis/warehouse.py", "from workers.store import Store", "workers"),
        ("orchestrator/plan.py", "from omegaconf import DictConfig", "omegaconf"),
        ("orchestrator/schedule.py", "import ray.exceptions", "ray"),
        ("orchestrator/executors/inline.py", "import torch", "torch"),
        ("orchestrator/plan.py", "import analysis", "analysis"),
        ("orchestrator/plan.py", "import requests", "requests"),
    ],
)
def test_the_detector_catches_a_planted_import(path: str, source: str, name: str) -> None:
    assert trespasses(source, path) == [name]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("workers/engine/load.py", "import torch"),
        ("workers/store.py", "import os\nimport pyarrow as pa\nfrom workers import parquet"),
        ("workers/arms/base.py", "from . import stale\nimport_module('.cold', __package__)"),
        ("orchestrator/executors/ray/actor.py", "def start():\n    import ray"),
        ("orchestrator/executors/base.py", "from workers.block import Block"),
        ("orchestrator/command.py", "from analysis import warehouse"),
        ("analysis/report.py", "text = 'import torch'  # import torch"),
    ],
)
def test_the_detector_lets_a_rightful_import_pass(path: str, source: str) -> None:
    assert trespasses(source, path) == []


@pytest.mark.parametrize(
    ("module", "may_load"),
    [
        ("workers.arms", ()),
        ("workers.session", ()),
        ("workers.surfaces", ()),
        ("workers.studies", ()),
        ("workers.worker", ()),
        ("orchestrator.grid", ()),
        ("orchestrator.plan", ()),
        ("orchestrator.__main__", ("duckdb",)),
        ("analysis", ("duckdb",)),
        ("analysis.__main__", ("duckdb",)),
    ],
)
def test_importing_loads_nothing_heavy(module: str, may_load: tuple[str, ...]) -> None:
    code = f"import json, sys, {module}; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) <= set(may_load)


@pytest.mark.parametrize(
    "command",
    ["orchestrator --help", "orchestrator mode=plan store.root={}", "analysis --help"],
)
def test_a_command_that_needs_no_model_loads_nothing_that_computes(command: str, tmp_path: Path) -> None:
    code = (
        "import json, runpy, sys\n"
        "try: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
        f"finally: print(json.dumps([name for name in {HEAVY} if name in sys.modules]))\n"
    )
    words = command.format(tmp_path).split()
    code = f"import sys; sys.argv = {words}\n" + code
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.splitlines()[-1])) <= {"duckdb"}
