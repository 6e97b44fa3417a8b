"""The schema of the configuration, and what is said where it is broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator

from workers.errors import ConfigError, nearest
from workers.spec import Spec

Name = Annotated[str, StringConstraints(pattern=r"^[\w.+-]+$", max_length=80)]


class ExecutorConfig(Spec):
    """Where blocks run."""

    kind: Literal["ray", "inline"]
    address: str | None = None
    """`auto` or host:port joins a Ray cluster; nothing starts one on this machine."""
    slots: Annotated[int, Field(ge=1)] | None = None
    """At most so many model slots; nothing means as many as fit."""


class TrackingConfig(Spec):
    """Who else is told."""

    kind: Literal["off", "wandb"]
    project: Name = "residue"
    entity: Name | None = None
    mode: Literal["auto", "online", "offline"] = "auto"
    timeout_s: Annotated[float, Field(gt=0)] = 30


class StoreConfig(Spec):
    """Where results go."""

    kind: Literal["local"]
    root: Annotated[str, StringConstraints(min_length=1)]

    @field_validator("root")
    @classmethod
    def _is_a_folder(cls, root: str) -> str:
        """As a path, `s3://bucket` would be a folder `s3:` beside the code, and the bucket would stay empty."""
        if "://" in root:
            raise ValueError("should be a folder; mount the storage and name the folder that it is mounted at")
        return root


Words = Annotated[str, StringConstraints(pattern=r"\S")]


class Exclusion(Spec):
    """Cells that a grid leaves out on purpose."""

    where: str | dict[str, Any]
    why: Words


class NotRun(Spec):
    """What belongs to an experiment and cannot be said as cells."""

    what: Words
    why: Words


class RunConfig(Spec):
    """Everything one call of the command was asked."""

    name: Name
    parts: tuple[Name, ...] = ()
    """Other grids, of which this one is the union."""
    models: tuple[Name, ...]
    study: dict[str, Any]
    exclude: tuple[Exclusion, ...] = ()
    not_run: tuple[NotRun, ...] = ()
    executor: ExecutorConfig
    tracking: TrackingConfig
    store: StoreConfig
    mode: Literal["run", "plan", "doctor", "replay"] = "run"
    cell: str | None = None
    """With `mode=replay`: a cell's id or the beginning of one, `/draw` behind it."""
    retry: Literal["none", "error"] = "none"
    isolation: Literal["class", "strict"] = "class"
    decode_once: bool = True
    kv_budget_mb: Annotated[int, Field(ge=1)] = 1024
    block_episodes: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Nothing: as many as make blocks that are worth a worker's while."""
    hang_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 3600
    """A worker of which nothing is heard for so long is taken for hung; nothing: never."""
    where: str | dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    only: tuple[str, ...] = ()


def checked(where: str, schema: type[Any], values: Mapping[str, Any]) -> Any:
    """Plain values as that schema; `where` they stand.

    Raises:
        ConfigError: one line about the first problem.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as refusal:
        raise ConfigError(_first_problem(where, schema, refusal)) from None


def _first_problem(where: str, schema: type[Any], refusal: ValidationError) -> str:
    problems = refusal.errors(include_url=False, include_context=False)
    # A misspelt key also leaves its right spelling missing; the misspelling is what the user can see.
    problem = min(problems, key=lambda one: one["type"] != "extra_forbidden")
    path = [str(step) for step in problem["loc"]]
    place = ".".join(([where] if where else []) + path)
    if problem["type"] == "extra_forbidden":
        parent = ".".join(place.split(".")[:-1])
        known = {*_siblings(schema, problem["loc"][:-1]), *(() if where else ("grid", "model"))}
        return f"unknown key {path[-1]!r}{f' in {parent}' if parent else ''}{nearest(path[-1], known)}"
    if problem["type"] == "missing":
        return f"{place} is missing"
    if problem["type"] == "tuple_type" and isinstance(problem["input"], str | int | float):
        levels = ",".join(level.strip() for level in str(problem["input"]).split(","))
        return f"{place}: should be a list: {place}=[{levels}]"
    message = problem["msg"].removeprefix("Value error, ")
    given = "" if isinstance(problem["input"], dict) else f", got {problem['input']!r:.80}"
    return f"{place}: {message[0].lower()}{message[1:]}{given}"


def _siblings(schema: Any, path: Sequence[int | str]) -> set[str]:
    """Field names of the nested schema that `path` leads to, as far as annotations tell."""
    found = _specs_in(schema)
    for step in path:
        below = [
            spec for one in found if step in one.model_fields for spec in _specs_in(one.model_fields[step].annotation)
        ]
        # A step that is no field is a place in a list, or the kind that chooses among several.
        found = below or [one for one in found if step in _tags(one)] or found
    return {name for one in found for name in one.model_fields}


def _specs_in(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    return [spec for part in getattr(annotation, "__args__", ()) for spec in _specs_in(part)]


def _tags(spec: Any) -> tuple[Any, ...]:
    field = spec.model_fields.get("kind")
    return getattr(field.annotation, "__args__", ()) if field else ()
