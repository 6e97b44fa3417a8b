"""Parts of axes → cells. Pure: opens no file, loads no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from orchestrator.catalogue import Catalogue, Episodes
from orchestrator.cells import Cells, identified
from orchestrator.config import Composed, Part
from orchestrator.config_schema import Exclusion
from orchestrator.ids import Bools, Ids, Ints
from orchestrator.rows import Rows, Treatment, joined
from orchestrator.where import Levels, named, predicate
from workers import arms, studies
from workers.errors import ConfigError, NotInstalled
from workers.identity import canonical, digest, libraries
from workers.spec import ModelSpec


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

    cells: Cells
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


def expand(composed: Composed, models: Mapping[str, ModelIdentity]) -> Cells:
    """Every cell of the grid, selected or not.

    Raises:
        ConfigError: a level or a selection names something that does not exist.
    """
    return lay_out(composed, models).cells


def lay_out(composed: Composed, models: Mapping[str, ModelIdentity]) -> Grid:
    """The union of the grid's parts, each cell once, without what is excluded; no text of an episode is kept.

    Raises:
        ConfigError: a level, an exclusion or a selection names something that does not exist.
        NotInstalled: no part can do without an optional package that is not there.
    """
    kept: list[Rows] = []
    excluded: list[Excluded] = []
    asked, unplanned = _asked(composed, models)
    everywhere = cache(lambda: _levels(table for _, table in asked))
    for part, table in asked:
        of_part = [(one, everywhere if one in composed.run.exclude else table.levels) for one in part.run.exclude]
        rest, left_out = _without(table, of_part, part.name, is_strict=composed.is_as_filed)
        kept.append(rest)
        excluded += left_out
    rows = joined(kept)
    if composed.run.parts:
        of_whole = [one for one in composed.run.exclude if any(one not in p.run.exclude for p in composed.parts)]
        at = rows.levels()
        rows, left_out = _without(rows, [(one, lambda: at) for one in of_whole], "", is_strict=composed.is_as_filed)
        excluded += left_out
    if not len(rows):
        raise ConfigError("every cell of the grid is excluded; exclude=[] keeps them")
    cells = identified(rows, f"{composed.study.name}/{composed.study.version}", libraries())
    return Grid(_selected(composed, cells), tuple(excluded), tuple(unplanned))


def _asked(composed: Composed, models: Mapping[str, ModelIdentity]) -> tuple[list[tuple[Part, Rows]], list[Unplanned]]:
    """The rows of each part before anything is excluded, and the parts that need what is not installed."""
    catalogue, treatments = Catalogue(), dict[Treatment, int]()
    found: list[tuple[Part, Columns]] = []
    unplanned = []
    for part in composed.parts:
        try:
            found.append((part, _columns(part, models, catalogue, treatments)))
        except NotInstalled as lack:
            unplanned.append(Unplanned(part.name, str(lack)))
            if len(unplanned) == len(composed.parts):
                raise
    episodes, known = catalogue.closed(), tuple(treatments)
    return [(part, _rows(part, columns, episodes, known)) for part, columns in found], unplanned


class Columns(NamedTuple):
    """Episode, treatment and number of draws of each row."""

    episode: Ints
    treatment: Ints
    num_draws: Ints


def _columns(
    part: Part, models: Mapping[str, ModelIdentity], catalogue: Catalogue, treatments: dict[Treatment, int]
) -> Columns:
    """Every episode of a part with every treatment; both become known where they were not."""
    found = []
    for model in part.models:
        asked = dict(_treatments(part, model))
        codes = [treatments.setdefault(treatment, len(treatments)) for treatment in asked]
        at = catalogue.add(model.name, models[model.name].digest, studies.written(part.spec, model))
        num_draws = np.array(list(asked.values()), dtype=np.int64)
        found.append((np.repeat(at, len(codes)), np.tile(codes, len(at)), np.tile(num_draws, len(at))))
    return Columns(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _treatments(part: Part, model: ModelSpec) -> Iterator[tuple[Treatment, int]]:
    """How the part treats each episode of a model, and how often it is drawn."""
    for arm, (decode, num_draws) in product(part.spec.arms, part.spec.decode.each(model.max_new_tokens)):
        yield Treatment(arm, f"{arm}/{arms.get(arm).version}", decode.text, decode.temperature), num_draws


def _rows(part: Part, columns: Columns, episodes: Episodes, treatments: tuple[Treatment, ...]) -> Rows:
    name = (part.name,) if part.name else ()
    return Rows(episodes, treatments, *columns, unions=(name,), union=np.zeros(len(columns.episode), dtype=np.int64))


def _without(
    rows: Rows, exclusions: Sequence[tuple[Exclusion, Callable[[], Levels]]], part: str, *, is_strict: bool
) -> tuple[Rows, list[Excluded]]:
    """The rows that no exclusion names, and for each exclusion how many are left out by it first.

    Args:
        exclusions: each with the levels that it may name.
    """
    counted = []
    for exclusion, levels in exclusions:
        # Where the command line chose other levels, a file may exclude what is not there.
        known = levels() if is_strict else {axis: _Open(names) for axis, names in levels().items()}
        try:
            is_out = _matching(rows, exclusion.where, known)
        except ConfigError as error:
            raise ConfigError(f"{f'grid {part}: ' if part else ''}exclude: {error}") from None
        counted.append(Excluded(part, exclusion.why, int(is_out.sum())))
        rows = rows.take(~is_out)
    return rows, counted


class _Open(list[Any]):
    """Levels among which any other may be asked for, too."""

    def __contains__(self, level: object) -> bool:
        return True


def _matching(rows: Rows, where: str | dict[str, Any] | None, levels: Levels) -> Bools:
    """The rows for which `where` holds: asked once for each combination of the levels that it names."""
    keep = predicate(where, levels)
    names = [axis for axis in rows.axes if axis in named(where)]
    if not names or not len(rows):
        return np.full(len(rows), keep({}) if where else True)
    columns = [rows.column(axis) for axis in names]
    sizes = [len(levels) for _, levels in columns]
    mixed = np.ravel_multi_index([codes for codes, _ in columns], sizes)
    combinations, place = np.unique(mixed, return_inverse=True)
    answers = []
    for combination in zip(*np.unravel_index(combinations, sizes), strict=True):
        at = zip(names, combination, columns, strict=True)
        answers.append(keep({axis: levels[code] for axis, code, (_, levels) in at}))
    return np.array(answers, dtype=np.bool_)[place]


def _levels(tables: Iterable[Rows]) -> dict[str, list[Any]]:
    """Axis → its levels in any of the tables."""
    found: dict[str, dict[Any, None]] = {}
    for table in tables:
        for axis, levels in table.levels().items():
            found.setdefault(axis, {}).update(dict.fromkeys(levels))
    return {axis: list(levels) for axis, levels in found.items()}


def _selected(composed: Composed, cells: Cells) -> Cells:
    run = composed.run
    if run.only or run.where is not None or run.limit is not None:
        is_in = _matching(cells.rows, run.where, cells.rows.levels())
        if run.only:
            is_in &= _resolved(run.only, cells.ids)
        if run.limit is not None:
            is_in &= np.cumsum(is_in) <= run.limit
        if not is_in.any():
            raise ConfigError(f"where=, limit= and only= leave none of the {len(cells)} cells")
        cells = replace(cells, is_selected=is_in)
    return cells


def _resolved(only: tuple[str, ...], ids: Ids) -> Bools:
    """The one cell of each id or beginning of an id."""
    found = np.zeros(len(ids), dtype=np.bool_)
    for wanted in only:
        hits = [at for at, cell_id in enumerate(ids) if cell_id.startswith(wanted)]
        if len(hits) != 1:
            count = f"{len(hits)} cells of this grid have" if hits else "no cell of this grid has"
            raise ConfigError(f"only={wanted}: {count} an id that begins so; mode=plan and SQL show ids")
        found[hits] = True
    return found
