"""Command line and YAML → one frozen configuration. The last place where an omegaconf object is seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field, StringConstraints, ValidationError
from yaml import YAMLError

from workers import arms, studies
from workers.errors import ConfigError, nearest
from workers.spec import ModelSpec, Spec
from workers.studies import Study, StudySpec

CONF = Path(__file__).resolve().parent.parent / "conf"

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


class RunConfig(Spec):
    """Everything one call of the command was asked."""

    name: Name
    models: tuple[Name, ...]
    study: dict[str, Any]
    executor: ExecutorConfig
    tracking: TrackingConfig
    store: StoreConfig
    mode: Literal["run", "plan"] = "run"
    retry: Literal["none", "error"] = "none"
    isolation: Literal["class", "strict"] = "class"
    block_episodes: Annotated[int, Field(ge=1, le=10_000)] = 2
    where: str | dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Composed:
    """The configuration with its names looked up."""

    run: RunConfig
    models: tuple[ModelSpec, ...]
    study: Study
    spec: StudySpec


def load(overrides: Sequence[str], config_dir: Path | None = None) -> Composed:
    """Compose, check and freeze.

    Args:
        overrides: Hydra overrides, `+grid=census`, `model=[a,b]`, `study.arms=[stale,cold]`.
        config_dir: a folder beside `conf/` whose files are found first.

    Raises:
        ConfigError: anything is unknown, misspelt, missing or of the wrong type.
    """
    if config_dir is not None and not config_dir.is_dir():
        raise ConfigError(f"--config-dir {config_dir}: no such folder")
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"), _one_line_errors():
        search = [f"hydra.searchpath=[file://{config_dir.resolve()}]"] if config_dir else []
        raw = _plain(compose("config", overrides=[*map(_spelled_out, overrides), *search]))
        run = _checked("", RunConfig, raw)
        models = tuple(_models(_distinct("models", run.models), search))
    if "name" not in run.study:
        raise ConfigError("study.name is missing: choose a study with study=rollback")
    study = studies.get(str(run.study["name"]))
    spec: StudySpec = _checked("study", study.spec, run.study)
    for arm in _distinct("study.arms", spec.arms):
        arms.get(arm)
    return Composed(run, models, study, spec)


def _spelled_out(override: str) -> str:
    """The short forms this command knows, as Hydra overrides."""
    if override.startswith("-"):
        hint = "; the grid is the sweep: list levels instead" if override in ("-m", "--multirun") else ""
        raise ConfigError(f"unknown option {override!r}{hint or '; try --help'}")
    key, equals, value = override.partition("=")
    if not equals:
        raise ConfigError(f"{override!r} is not of the form key=value")
    if key.lstrip("+~").split(".")[0].split("/")[0] == "hydra":
        raise ConfigError(f"{key}: Hydra's own settings have no effect here; Residue places and repeats the work")
    if key == "grid":
        return f"+grid={value}"
    if key in ("model", "models", "only"):
        key = "models" if key == "model" else key
        return override if value.startswith("[") and key != "models" else f"{key}={_bracketed(value)}"
    if key == "where" and not value.startswith(("{", '"', "'")) and value != "null":
        return "where=" + _quoted(value)
    return override if _is_parsed(override) else f"{key}={_quoted(value)}"


def _is_parsed(override: str) -> bool:
    """Whether Hydra's grammar reads it as one value; a sentence with commas or braces has to be quoted for it."""
    try:
        return not OverridesParser.create().parse_override(override).is_sweep_override()
    except HydraException:
        return False


def _bracketed(value: str) -> str:
    return value if value.startswith("[") else f"[{value}]"


def _quoted(value: str) -> str:
    escaped = re.sub(r"(\\*)\"", lambda found: found[1] * 2 + '\\"', value)
    return f'"{escaped}"'


def _models(names: Sequence[str], search: list[str]) -> Iterator[ModelSpec]:
    # As group members, for the search path is not consulted for a primary config; together, for composing takes time.
    places = {f"model_{number}": name for number, name in enumerate(names)}
    found = compose("config", overrides=[*(f"+model@{place}={name}" for place, name in places.items()), *search])
    for place, name in places.items():
        fields = found.get(place)
        if not isinstance(fields, DictConfig):
            raise ConfigError(f"model {name}: the file is empty or not a mapping")
        yield _checked(f"model {name}", ModelSpec, {**_plain(fields), "name": name})


def _plain(config: Any) -> dict[str, Any]:
    found = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def _distinct(where: str, names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(names)
    if not found:
        raise ConfigError(f"{where} is empty: name at least one")
    for name in found:
        if found.count(name) > 1:
            raise ConfigError(f"{where} names {name!r} twice")
    return found


def _checked(where: str, schema: type[Any], values: Mapping[str, Any]) -> Any:
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
    message = problem["msg"].removeprefix("Value error, ")
    given = "" if isinstance(problem["input"], dict) else f", got {problem['input']!r:.80}"
    return f"{place}: {message[0].lower()}{message[1:]}{given}"


def _siblings(schema: Any, path: Sequence[int | str]) -> set[str]:
    """Field names of the nested schema that `path` leads to, as far as annotations tell."""
    for step in path:
        field = getattr(schema, "model_fields", {}).get(step)
        nested = _specs_in(field.annotation) if field else _specs_in(schema)
        if not nested:
            return set()
        schema = next((spec for spec in nested if step in _tags(spec)), nested[0])
    return set(getattr(schema, "model_fields", {}))


def _specs_in(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    return [spec for part in getattr(annotation, "__args__", ()) for spec in _specs_in(part)]


def _tags(spec: Any) -> tuple[Any, ...]:
    field = spec.model_fields.get("kind")
    return getattr(field.annotation, "__args__", ()) if field else ()


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Hydra's, omegaconf's and YAML's errors, as one line of ours."""
    try:
        yield
    except MissingConfigException as error:
        raise ConfigError(_missing(error)) from None
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_first_line(error)) from None
    except YAMLError as error:
        raise ConfigError(f"a configuration file is not YAML: {error}") from None


def _missing(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    folder = CONF / group
    if not group or not folder.is_dir():
        return _first_line(error)
    return (
        f"unknown {group} {name!r}{nearest(name, [*(error.options or []), *(f.stem for f in folder.glob('*.yaml'))])}"
    )


def _first_line(error: BaseException) -> str:
    text = str(error)
    if key := re.search(r"Could not override '([^']+)'", text):
        return _unknown_key(key[1])
    return text.strip().splitlines()[0]


def _unknown_key(key: str) -> str:
    """Where a dotted key leaves the default configuration, and what stands there."""
    known: Any = _plain(compose("config")) | {"grid": None, "model": None}
    path = key.split(".")
    for at, step in enumerate(path):
        if not isinstance(known, dict) or step not in known:
            parent = ".".join(path[:at])
            hint = nearest(step, known if isinstance(known, dict) else ())
            return f"unknown key {step!r}{f' in {parent}' if parent else ''}{hint}"
        known = known[step]
    return f"cannot override {key!r}"
