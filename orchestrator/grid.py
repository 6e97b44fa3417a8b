"""Parts of axes → cells. Pure: opens no file, loads no model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from orchestrator.config import Composed, Part
from orchestrator.config_schema import Exclusion
from orchestrator.where import Levels, predicate
from workers import arms
from workers.episode import Episode
from workers.errors import ConfigError, NotInstalled
from workers.identity import IDENTITY_VERSION, Identity, canonical, digest, libraries
from workers.spec import ModelSpec
from workers.studies import Study


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model this is, and why it cannot run here.

    Attributes:
        text: canonical JSON of what the model's digest is made of.
        blocked: one line, or None where it can run.
    """

    text: str
    blocked: str | None

    @property
    def digest(self) -> str:
        """Goes into every cell id of the model."""
        return digest(self.text)


@dataclass(frozen=True, slots=True)
class Cell:
    """Episode × arm: the grid's unit.

    Attributes:
        parts: names of the parts that ask for it; none where the grid has none.
    """

    model: str
    episode_id: str
    episode: Episode
    arm: str
    temperature: float
    num_draws: int
    identity: Identity
    cell_id: str
    parts: tuple[str, ...]
    is_selected: bool

    def joined(self, other: Cell) -> Cell:
        """The same cell, asked for by another part too: as often as either wants it drawn."""
        return replace(self, parts=(*self.parts, *other.parts), num_draws=max(self.num_draws, other.num_draws))


class Excluded(NamedTuple):
    """Cells that a grid, or the part of it that is named, leaves out on purpose."""

    part: str
    why: str
    num_cells: int


class Unplanned(NamedTuple):
    """A part whose cells cannot be told here, for want of an optional package."""

    part: str
    why: str


@dataclass(frozen=True, slots=True)
class Grid:
    """What is asked for: the cells, selected or not, what was left out of them, and the parts that cannot be told."""

    cells: list[Cell]
    excluded: tuple[Excluded, ...]
    unplanned: tuple[Unplanned, ...] = ()


def identify(model: ModelSpec, weights: str, blocked: str | None) -> ModelIdentity:
    """The model's identity from its YAML and the digest of its weights (DESIGN §4.1).

    The name is part of it: two model files never share a row, whatever they hold (lm-evaluation-harness#2715).
    """
    asked = model.model_dump(
        mode="json", include={"name", "dtype", "attention", "reply_format", "roles", "chat_template"}
    )
    # Left out where they ask for nothing, so that a model file which never names them keeps its cells.
    options = {"clock", "template_arguments", "system", "acknowledgement"}
    asked |= model.model_dump(mode="json", include=options, exclude_defaults=True)
    return ModelIdentity(canonical({"weights": weights, **asked}), blocked)


def expand(composed: Composed, models: Mapping[str, ModelIdentity]) -> list[Cell]:
    """Every cell of the grid, selected or not; all arms of an episode stand together.

    Raises:
        ConfigError: a level or a selection names something that does not exist.
    """
    return lay_out(composed, models).cells


def lay_out(composed: Composed, models: Mapping[str, ModelIdentity]) -> Grid:
    """The union of the grid's parts, each cell once, without what is excluded.

    Raises:
        ConfigError: a level, an exclusion or a selection names something that does not exist.
        NotInstalled: no part can do without an optional package that is not there.
    """
    kept: list[Cell] = []
    excluded: list[Excluded] = []
    asked, unplanned = _asked(composed, models)
    everywhere = _levels([cell for _, cells in asked for cell in cells])
    for part, cells in asked:
        of_part = [(one, everywhere if one in composed.run.exclude else _levels(cells)) for one in part.run.exclude]
        rest, left_out = _without(cells, of_part, part.name, is_strict=composed.is_as_filed)
        kept += rest
        excluded += left_out
    cells = _united(kept)
    if composed.run.parts:
        of_whole = [one for one in composed.run.exclude if any(one not in p.run.exclude for p in composed.parts)]
        at = _levels(cells)
        cells, left_out = _without(cells, [(one, at) for one in of_whole], "", is_strict=composed.is_as_filed)
        excluded += left_out
    if not cells:
        raise ConfigError("every cell of the grid is excluded; exclude=[] keeps them")
    return Grid(_selected(composed, cells), tuple(excluded), tuple(unplanned))


def _asked(
    composed: Composed, models: Mapping[str, ModelIdentity]
) -> tuple[list[tuple[Part, list[Cell]]], list[Unplanned]]:
    """The cells of each part before anything is excluded, and the parts that need what is not installed."""
    asked = []
    unplanned = []
    for part in composed.parts:
        try:
            asked.append((part, list(_cells(composed.study, part, models))))
        except NotInstalled as lack:
            unplanned.append(Unplanned(part.name, str(lack)))
            if len(unplanned) == len(composed.parts):
                raise
    return asked, unplanned


def _united(cells: Iterable[Cell]) -> list[Cell]:
    """Each cell once, those of an episode together, in the order in which episodes first come."""
    episodes: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        same = episodes.setdefault(cell.episode_id, {})
        known = same.get(cell.cell_id)
        same[cell.cell_id] = known.joined(cell) if known else cell
    return [cell for same in episodes.values() for cell in same.values()]


def _without(
    cells: list[Cell], exclusions: Sequence[tuple[Exclusion, Levels]], part: str, *, is_strict: bool
) -> tuple[list[Cell], list[Excluded]]:
    """The cells that no exclusion names, and for each exclusion how many are left out by it first.

    Args:
        exclusions: each with the levels that it may name.
    """
    counted = []
    for exclusion, levels in exclusions:
        # Where the command line chose other levels, a file may exclude what is not there.
        known = levels if is_strict else {axis: _Open(names) for axis, names in levels.items()}
        try:
            is_out = predicate(exclusion.where, known)
        except ConfigError as error:
            raise ConfigError(f"{f'grid {part}: ' if part else ''}exclude: {error}") from None
        kept = [cell for cell in cells if not is_out(_axes(cell))]
        counted.append(Excluded(part, exclusion.why, len(cells) - len(kept)))
        cells = kept
    return cells, counted


class _Open(list[Any]):
    """Levels among which any other may be asked for, too."""

    def __contains__(self, level: object) -> bool:
        return True


def _selected(composed: Composed, cells: list[Cell]) -> list[Cell]:
    only = _resolved(composed.run.only, [cell.cell_id for cell in cells])
    keep = predicate(composed.run.where, _levels(cells))
    left = composed.run.limit if composed.run.limit is not None else len(cells)
    selected = []
    for cell in cells:
        is_in = left > 0 and (not composed.run.only or cell.cell_id in only) and keep(_axes(cell))
        left -= is_in
        selected.append(cell if is_in else replace(cell, is_selected=False))
    if not any(cell.is_selected for cell in selected):
        raise ConfigError(f"where=, limit= and only= leave none of the {len(cells)} cells")
    return selected


def _axes(cell: Cell) -> dict[str, Any]:
    return {"model": cell.model, "arm": cell.arm, **cell.episode.axes}


def _levels(cells: Sequence[Cell]) -> dict[str, list[Any]]:
    """Axis → its levels in this grid, in the grid's order."""
    found: dict[str, dict[Any, None]] = {}
    for cell in cells:
        for name, level in _axes(cell).items():
            found.setdefault(name, {})[level] = None
    return {name: list(levels) for name, levels in found.items()}


def _cells(study: Study, part: Part, models: Mapping[str, ModelIdentity]) -> Iterator[Cell]:
    spec, versions = part.spec, libraries()
    treatments = [(name, f"{name}/{arms.get(name).version}") for name in spec.arms]
    for model in part.models:
        weights = models[model.name].digest
        decodes = spec.decode.each(model.max_new_tokens)
        for episode in spec.episodes(model):
            content = episode.digest
            episode_id = digest(f"{weights}\x1f{content}")
            for (arm, treatment), (decode, num_draws) in product(treatments, decodes):
                identity = Identity(
                    version=IDENTITY_VERSION,
                    study=f"{study.name}/{study.version}",
                    model=weights,
                    episode=content,
                    arm=treatment,
                    decode=decode.text,
                    libraries=versions,
                )
                yield Cell(
                    model=model.name,
                    episode_id=episode_id,
                    episode=episode,
                    arm=arm,
                    temperature=decode.temperature,
                    num_draws=num_draws,
                    identity=identity,
                    cell_id=identity.cell_id,
                    parts=(part.name,) if part.name else (),
                    is_selected=True,
                )


def _resolved(only: tuple[str, ...], cell_ids: list[str]) -> set[str]:
    found: set[str] = set()
    for wanted in only:
        hits = [cell_id for cell_id in cell_ids if cell_id.startswith(wanted)]
        if len(hits) != 1:
            count = f"{len(hits)} cells of this grid have" if hits else "no cell of this grid has"
            raise ConfigError(f"only={wanted}: {count} an id that begins so; mode=plan and SQL show ids")
        found.update(hits)
    return found
