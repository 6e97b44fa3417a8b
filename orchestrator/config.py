"""Command line and YAML → one frozen configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config_schema import RunConfig, checked
from orchestrator.config_sources import Sources, composing
from workers import arms, studies
from workers.errors import ConfigError
from workers.spec import ModelSpec
from workers.studies import Study, StudySpec


@dataclass(frozen=True, slots=True)
class Part:
    """One product of models, levels and arms.

    Attributes:
        name: of the grid it is; empty for a grid that has no parts and is its own only one.
        run: its own configuration, with what it leaves out.
    """

    name: str
    run: RunConfig
    models: tuple[ModelSpec, ...]
    spec: StudySpec


@dataclass(frozen=True, slots=True)
class Composed:
    """The configuration with its names looked up.

    Attributes:
        models: those of all parts, each once.
        is_as_filed: whether the command line leaves models and study as the files have them.
    """

    run: RunConfig
    models: tuple[ModelSpec, ...]
    study: Study
    parts: tuple[Part, ...]
    is_as_filed: bool

    @property
    def spec(self) -> StudySpec:
        """The first part's study."""
        return self.parts[0].spec


def load(overrides: Sequence[str], config_dir: Path | None = None) -> Composed:
    """Compose, check and freeze.

    Args:
        overrides: Hydra overrides, `+grid=census`, `model=[a,b]`, `study.arms=[stale,cold]`.
        config_dir: a folder like `conf/` whose files are found first, those with a built-in's name too.

    Raises:
        ConfigError: anything is unknown, misspelt, missing or of the wrong type.
    """
    if config_dir is not None and not config_dir.is_dir():
        raise ConfigError(f"--config-dir {config_dir}: no such folder")
    with composing(overrides, config_dir) as sources:
        run = _run(sources)
        runs = _runs_of_parts(run, sources) if run.parts else {"": run}
        named = sources.models(tuple(dict.fromkeys(name for one in runs.values() for name in one.models)))
        is_as_filed = sources.is_as_filed
    models = {name: checked(f"model {name}", ModelSpec, fields) for name, fields in named.items()}
    study = _study(runs)
    parts = tuple(_part(name, one, models, study) for name, one in runs.items())
    run = run.model_copy(update={"models": tuple(models)})
    return Composed(run, tuple(models.values()), study, parts, is_as_filed)


def _run(sources: Sources) -> RunConfig:
    raw = sources.run()
    if isinstance(raw.get("grid"), dict):
        raise ConfigError("the grid's file lacks the line `# @package _global_` at its top")
    run: RunConfig = checked("", RunConfig, raw)
    _distinct("models", run.models)
    return run


OF_A_PART = {"name", "parts", "models", "study", "exclude", "not_run", "block_episodes"}
"""What a part's file says for itself; the rest of its configuration has to be the whole's."""


def _runs_of_parts(whole: RunConfig, sources: Sources) -> dict[str, RunConfig]:
    """Part → its own configuration, under the same command line."""
    with _of_grid(whole.name):
        bare = _run(sources.of_part(None))
        for key in ("models", "study"):
            if getattr(bare, key) != getattr(whole, key):
                raise ConfigError(f"a grid with parts has no {key} of its own: say it in a part or on the command line")
    runs = {}
    for name in _distinct("parts", whole.parts):
        with _of_grid(name):
            runs[name] = _run(sources.of_part(name))
            _check_part(runs[name], whole)
    return runs


def _check_part(part: RunConfig, whole: RunConfig) -> None:
    if part.parts:
        raise ConfigError(f"it has parts itself: name {', '.join(part.parts)} instead")
    for key in RunConfig.model_fields.keys() - OF_A_PART:
        if getattr(part, key) != getattr(whole, key):
            raise ConfigError(f"a part of {whole.name} cannot say {key} for itself: say it there")


@contextmanager
def _of_grid(name: str) -> Iterator[None]:
    """Errors about a part, with its name."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"grid {name}: {error}" if name else str(error)) from None


def _study(runs: Mapping[str, RunConfig]) -> Study:
    names = dict.fromkeys(str(run.study.get("name")) for run in runs.values() if "name" in run.study)
    if not names:
        raise ConfigError("study.name is missing: choose a study with study=rollback")
    if len(names) > 1:
        raise ConfigError(f"the parts are of several studies, {' and '.join(names)}: make them grids of their own")
    return studies.get(next(iter(names)))


def _part(name: str, run: RunConfig, models: Mapping[str, ModelSpec], study: Study) -> Part:
    with _of_grid(name):
        spec: StudySpec = checked("study", study.spec, run.study)
        for arm in _distinct("study.arms", spec.arms):
            arms.get(arm)
    return Part(name, run, tuple(models[name] for name in run.models), spec)


def _distinct(where: str, names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(names)
    if not found:
        raise ConfigError(f"{where} is empty: name at least one")
    for name in found:
        if found.count(name) > 1:
            raise ConfigError(f"{where} names {name!r} twice")
    return found
