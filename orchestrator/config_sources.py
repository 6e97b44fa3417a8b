"""Overrides and folders of YAML → plain dictionaries. Hydra, omegaconf and YAML are seen here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, InterpolationKeyError, MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from workers.errors import ConfigError, nearest

CONF = Path(__file__).resolve().parent.parent / "conf"

GROUPS = ("study", "executor", "tracking", "store", "grid")
"""Folders of `conf/` of which the command line chooses a file."""

OF_THE_WHOLE = ("grid", "parts", "name")
"""What the command line says of a grid, and not of each of its parts."""


@dataclass(frozen=True)
class Sources:
    """What the command line says, and where its files are.

    Attributes:
        whole: for a part of a grid, that of the grid.
    """

    overrides: tuple[str, ...]
    search: tuple[str, ...]
    folder: Path | None
    whole: Sources | None = None

    @property
    def is_as_filed(self) -> bool:
        """Whether the command line leaves models and study to the files."""
        return not any(_key(override).split(".")[0] in ("models", "study") for override in self.overrides)

    def of_part(self, grid: str | None) -> Sources:
        """The same command line over another grid's file, or over none."""
        chosen = () if grid is None else (f"+grid={_quoted(grid)}",)
        kept = (override for override in self.overrides if _key(override) not in OF_THE_WHOLE)
        return replace(self, overrides=(*chosen, *kept), whole=self)

    def run(self) -> dict[str, Any]:
        """The whole configuration but the model files."""
        with self._one_line_errors():
            return _plain(self._composed([*self._cards, *self.overrides]))

    def models(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Name → the fields of its file."""
        for name in names:
            if name.endswith((".yaml", ".yml")):
                raise ConfigError(f"model {name}: name the file without its ending, model={name.rpartition('.')[0]}")
        # As group members, for a primary config is found in one folder only; together, for composing takes time.
        places = {f"model_{number}": name for number, name in enumerate(names)}
        with self._one_line_errors():
            found = self._composed([f"+model@{place}={_quoted(name)}" for place, name in places.items()])
        return {name: self._model(name, found.get(place)) for place, name in places.items()}

    def _model(self, name: str, fields: Any) -> dict[str, Any]:
        if not isinstance(fields, DictConfig):
            raise ConfigError(f"model {name}: the file is empty or not a mapping")
        with self._one_line_errors(f"model {name}: "):
            found = _plain(fields)
        if found.get("name", name) != name:
            raise ConfigError(
                f"model {name}: its file says name: {found['name']}; the name is the file's, drop the line"
            )
        return {**found, "name": name}

    @property
    def _chosen(self) -> list[str]:
        return [override for override in self.overrides if _key(override) in GROUPS]

    @cached_property
    def _cards(self) -> list[str]:
        """Overrides that put each `study/<study>/<group>/<name>.yaml` under `study.texts.<group>.<name>`.

        The files of a study are found by being there, so that a new effect is one YAML in either folder.
        """
        if self.whole is not None:
            return self.whole._cards  # Parts are of one study, and composing takes time.
        study = self._composed(self._chosen).get("study")
        name = str(study.get("name") or "") if isinstance(study, DictConfig) else ""
        places = [folder / "study" / name for folder in (CONF, self.folder) if folder is not None and name]
        found = sorted({path.relative_to(place).with_suffix("") for place in places for path in place.glob("*/*.yaml")})
        for card in found:
            if not re.fullmatch(r"[\w-]+", card.name):
                raise ConfigError(f"study/{name}/{card}.yaml: name the file by letters, digits, - and _ alone")
        return [
            f"+study/{name}/{card.parent}@study.texts.{card.parent}.{card.name}={_quoted(card.name)}" for card in found
        ]

    def _composed(self, overrides: Sequence[str]) -> DictConfig:
        return compose("config", overrides=[*overrides, *self.search])

    @contextmanager
    def _one_line_errors(self, where: str = "") -> Iterator[None]:
        """Hydra's, omegaconf's and YAML's errors, as one line of ours."""
        try:
            yield
        except MissingConfigException as error:
            raise ConfigError(_missing(error)) from None
        except YAMLError as error:
            raise ConfigError(f"a configuration file is not YAML: {error}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self._culprit(error)} is not UTF-8 text: {error.reason}") from None
        except OSError as error:
            raise ConfigError(f"{self._culprit(error)} cannot be read as a mapping: {error}") from None
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            raise ConfigError(where + self._said(error)) from None

    def _culprit(self, error: Exception) -> str:
        """The file that fails so; the error does not name it."""
        for path in sorted(self.folder.rglob("*.yaml")) if self.folder else ():
            try:
                OmegaConf.load(path)
            except type(error):
                return str(path)
            except (YAMLError, ValueError, OSError):
                continue
        return "a configuration file"

    def _said(self, error: Exception) -> str:
        text = str(error)
        if unknown := re.search(r"Could not override '([^']+)'", text):
            # A mapping is merged key by key: the cause names the one that is not there.
            return self._unknown_key(getattr(error.__cause__, "full_key", None) or unknown[1])
        merged = re.search(r"Error merging override ([^=\s]+)=", text)
        if merged and "DictConfig with ListConfig" in f"{text} {error.__cause__}":
            return f"{merged[1]} is a mapping, {{name: …}}, and was given a list"
        key = re.sub(r"^model_\d+\.", "", getattr(error, "full_key", None) or "")
        if isinstance(error, MissingMandatoryValue):
            return f"{key} is ???: give it a value"
        if not text.strip() and isinstance(error.__cause__, GrammarParseError):
            return f"{self._culprit(error.__cause__)}: {_first_line(error.__cause__)}{_INTERPOLATION}"
        said = _first_line(error)
        if error.__cause__ is not None and (cause := _first_line(error.__cause__)) not in said:
            said = f"{said}: {cause}"
        if key and isinstance(error, OmegaConfBaseException):
            said = f"{key}: {said}"
        return said + (_INTERPOLATION if "${" in text or isinstance(error, InterpolationKeyError) else "")

    def _unknown_key(self, key: str) -> str:
        """Where a dotted key leaves the files that were chosen, and what stands there."""
        known: Any = _plain(self._composed([*self._cards, *self._chosen])) | {"grid": None, "model": None}
        path = key.split(".")
        for at, step in enumerate(path):
            if not isinstance(known, dict) or step not in known:
                parent = ".".join(path[:at])
                hint = nearest(step, known if isinstance(known, dict) else ())
                return f"unknown key {step!r}{f' in {parent}' if parent else ''}{hint}"
            known = known[step]
        return f"cannot override {key!r}"


@contextmanager
def composing(overrides: Sequence[str], folder: Path | None) -> Iterator[Sources]:
    """Hydra, set up for one configuration; a file of the user's folder hides ours of the same name.

    Raises:
        ConfigError: an override cannot be read, or the folder is missing.
    """
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"--config-dir {folder}: no such folder")
    spelled = tuple(map(_spelled_out, overrides))
    grids = [_value(override) for override in spelled if _key(override) == "grid"]
    if len(grids) > 1:
        raise ConfigError(f"one grid at a time, not {' and '.join(grids)}: change the rest with key=value")
    GlobalHydra.instance().clear()
    own = folder.resolve() if folder is not None else None
    is_whole = own is not None and (own / "config.yaml").is_file()
    with initialize_config_dir(str(own if is_whole else CONF), version_base="1.3"):
        yield Sources(spelled, _search(own, is_whole=is_whole), folder)


def _search(own: Path | None, *, is_whole: bool) -> tuple[str, ...]:
    """The override that makes Hydra look into the other folder, too."""
    if own is None:
        return ()
    if is_whole:
        return (f"hydra.searchpath=[{_quoted(f'file://{CONF}')}]",)
    # `hydra.searchpath` alone stands behind the primary folder, where a file that has a built-in's name is never found.
    loader = GlobalHydra.instance().config_loader()
    loader.get_search_path().prepend("--config-dir", f"file://{own}", anchor="main")
    return ("hydra.searchpath=[]",)


def _spelled_out(override: str) -> str:
    """The short forms this command knows, as Hydra overrides."""
    if override.startswith("-"):
        hint = "; the grid is the sweep: list levels instead" if override in ("-m", "--multirun") else ""
        raise ConfigError(f"unknown option {override!r}{hint or '; try --help'}")
    key, equals, value = override.partition("=")
    if not equals or not key.strip("+~"):
        raise ConfigError(f"{override!r} is not of the form key=value")
    if key.lstrip("+~").split(".")[0].split("/")[0] == "hydra":
        raise ConfigError(f"{key}: Hydra's own settings have no effect here; Residue places and repeats the work")
    if key.lstrip("+") in GROUPS and ".." in re.split(r"[/\\\\]", value.strip(" \"'")):
        raise ConfigError(f"{key}={value}: a name of a file in conf/{key.lstrip('+')}/, and no path out of it")
    if key.lstrip("+") in GROUPS and not value.startswith(("[", "{", '"', "'")):
        # Quoted: Hydra reads null, false and 5 as anything but a file's name.
        return f"{'+grid' if key == 'grid' else key}={_quoted(value)}"
    if key in ("model", "models", "only"):
        return f"{'models' if key == 'model' else key}={_as_names(key, value)}"
    if key == "where" and not value.startswith(("{", '"', "'")) and value != "null":
        return "where=" + _quoted(value)
    return override if _is_parsed(override) else f"{key}={_quoted(value)}"


def _is_parsed(override: str) -> bool:
    """Whether Hydra's grammar reads it as one value; a sentence with commas or braces has to be quoted for it."""
    try:
        return not OverridesParser.create().parse_override(override).is_sweep_override()
    except HydraException:
        return False


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")


def _value(override: str) -> str:
    return override.partition("=")[2].strip(_QUOTES)


def _as_names(key: str, value: str) -> str:
    """A list of names, each quoted: a file may be called 1e5, an id begin with 007."""
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    names = [name.strip() for name in inner.split(",") if name.strip()]
    if key == "only" and not names:
        raise ConfigError("only= is empty: name cell ids or their beginnings, or leave it out")
    return f"[{','.join(name if _is_quoted(name) else _quoted(name) for name in names)}]"


def _is_quoted(name: str) -> bool:
    return len(name) > 1 and name[0] in _QUOTES and name[-1] == name[0]


_QUOTES = "\"'"

_INTERPOLATION = "; ${…} stands for another key, \\${ for itself"


def _quoted(value: str) -> str:
    escaped = re.sub(r"(\\*)\"", lambda found: found[1] * 2 + '\\"', value)
    return f'"{escaped}"'


def _plain(config: Any) -> dict[str, Any]:
    found = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def _missing(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    folder = CONF / group
    if not group or not folder.is_dir():
        return _first_line(error)
    known: Mapping[str, None] = dict.fromkeys([*(error.options or []), *(f.stem for f in folder.glob("*.yaml"))])
    return f"unknown {group} {name!r}{nearest(name, known)}"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "a value cannot be read"
