"""AgentDojo's injection goals and the passages they enter, read from the installed wheel: content nobody here wrote.

Debenedetti et al. 2024, arXiv 2406.13352 (MIT licence). The package itself is never imported, so that none of its
dependencies is needed: its environments are YAML, and its goals are string constants of its source. Goals are those of
benchmark version v1, which holds all four suites.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from workers.errors import ConfigError, NotInstalled, nearest

PIN = "agentdojo==0.1.35"
BENCHMARK = "v1"
SUITES = ("banking", "slack", "travel", "workspace")


def is_installed() -> bool:
    """Whether there is a wheel to read."""
    return importlib.util.find_spec("agentdojo") is not None


def version() -> str:
    """Version of the wheel and of the benchmark in it: results differ between them.

    Raises:
        NotInstalled: AgentDojo is not installed.
    """
    _root()
    return f"agentdojo {metadata.version('agentdojo')}, benchmark {BENCHMARK}"


@cache
def goals(suite: str) -> dict[str, str]:
    """Injection task (`injection_task_0`) → what it asks for, in the suite's order.

    Raises:
        NotInstalled: AgentDojo is not installed, or is another one than the pinned.
        ConfigError: it has no such suite.
    """
    source = _file("default_suites", BENCHMARK, _known(suite), "injection_tasks.py")
    classes = (node for node in ast.parse(source.read_text("utf-8")).body if isinstance(node, ast.ClassDef))
    found = {node.name.replace("InjectionTask", "injection_task_"): _goal(node) for node in classes}
    return {task: goal for task, goal in sorted(found.items(), key=_number) if goal is not None}


@cache
def passages(suite: str) -> dict[str, str]:
    """Injection vector → the record, file or page that holds it, with `{carrier}` in its place.

    What an agent's tool returns is such a record; the other vectors in it hold their defaults.

    Raises:
        ConfigError: as `goals`, `NotInstalled` among them.
    """
    folder = ("data", "suites", _known(suite))
    environment = yaml.load(_file(*folder, "environment.yaml").read_text("utf-8"), _loader(_file(*folder, "")))
    described = yaml.safe_load(_file(*folder, "injection_vectors.yaml").read_text("utf-8"))
    defaults = {name: str(vector["default"]) for name, vector in described.items()}
    found: dict[str, str] = {}
    for record in _records(environment):
        text = record if isinstance(record, str) else yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
        for vector in defaults:
            if f"{{{vector}}}" in text and vector not in found:
                found[vector] = _filled(text, {**defaults, vector: "{carrier}"})
    return found


def _records(node: Any) -> Iterator[Any]:
    """What a tool would return as one: each record of named fields, and each text that stands for itself."""
    if isinstance(node, Mapping) and _is_record(node):
        yield node
    elif isinstance(node, Mapping | list):
        for value in node.values() if isinstance(node, Mapping) else node:
            yield from _records(value)
    elif isinstance(node, str):
        yield node


def _is_record(node: Mapping[str, Any]) -> bool:
    """Whether its keys are names of fields, not of files or pages, and no field holds records of its own."""
    values = list(node.values())
    is_named = all(str(key).isidentifier() for key in node) and all(_is_field(value) for value in values)
    return is_named and not all(isinstance(value, Mapping | list) for value in values)


def _is_field(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(not isinstance(inner, Mapping | list) for inner in value.values())
    return not isinstance(value, list) or all(not isinstance(inner, Mapping | list) for inner in value)


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _goal(task: ast.ClassDef) -> str | None:
    """The class's GOAL, put together from the string constants before it."""
    names: dict[str, str] = {}
    for line in task.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            value = _text(line.value, names)
            if value is not None:
                names[line.targets[0].id] = value
    return names.get("GOAL")


def _text(node: ast.expr, names: Mapping[str, str]) -> str | None:
    """What a string expression of constants comes to; None for anything else."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.Name(id=name):
            return names.get(name)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _text(value, names)
        case ast.JoinedStr(values=values):
            parts = [_text(value, names) for value in values]
            known = [part for part in parts if part is not None]
            return "".join(known) if len(known) == len(parts) else None
    return None


def _number(entry: tuple[str, Any]) -> int:
    return int(entry[0].rpartition("_")[2])


def _loader(folder: Path) -> type[yaml.SafeLoader]:
    """A safe loader that follows `!include`, inside the suite's folder only."""

    class Loader(yaml.SafeLoader):
        pass

    def include(loader: Loader, node: yaml.Node) -> Any:
        target = (folder / str(loader.construct_scalar(node))).resolve()  # type: ignore[arg-type]
        if not target.is_relative_to(folder.resolve()):
            raise ConfigError(f"AgentDojo's environment includes {target}, outside its own folder")
        return yaml.load(target.read_text("utf-8"), Loader)

    Loader.add_constructor("!include", include)
    return Loader


def _known(suite: str) -> str:
    if suite not in SUITES:
        raise ConfigError(f"AgentDojo has no suite {suite!r}{nearest(suite, SUITES)}")
    return suite


def _root() -> Path:
    found = importlib.util.find_spec("agentdojo")
    if found is None or not found.submodule_search_locations:
        raise NotInstalled(f"AgentDojo is not installed: pip install --no-deps {PIN}")
    return Path(found.submodule_search_locations[0])


def _file(*parts: str) -> Path:
    path = _root().joinpath(*parts)
    if not path.exists():
        raise NotInstalled(f"AgentDojo {metadata.version('agentdojo')} has no {'/'.join(parts)}: install {PIN}")
    return path
