"""Axes → cells. Pure: opens no file, loads no model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from orchestrator.config import Composed
from orchestrator.where import predicate
from workers import arms
from workers.episode import Episode
from workers.errors import ConfigError
from workers.identity import IDENTITY_VERSION, Identity, canonical, digest, libraries
from workers.spec import ModelSpec
from workers.studies.base import levels_of


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
    """Episode × arm: the grid's unit."""

    model: str
    episode_id: str
    episode: Episode
    arm: str
    temperature: float
    num_draws: int
    identity: Identity
    cell_id: str
    is_selected: bool


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


def expand(composed: Composed, models: dict[str, ModelIdentity]) -> list[Cell]:
    """Every cell of the grid, selected or not; all arms of an episode stand together.

    Raises:
        ConfigError: a level or a selection names something that does not exist.
    """
    cells = list(_cells(composed, models))
    only = _resolved(composed.run.only, [cell.cell_id for cell in cells])
    keep = predicate(composed.run.where, _levels(composed, cells))
    left = composed.run.limit if composed.run.limit is not None else len(cells)
    selected = []
    for cell in cells:
        is_in = (not composed.run.only or cell.cell_id in only) and keep(_axes(cell))
        is_in = is_in and left > 0
        left -= is_in
        selected.append(cell if is_in else replace(cell, is_selected=False))
    if not any(cell.is_selected for cell in selected):
        raise ConfigError(f"where=, limit= and only= leave none of the {len(cells)} cells")
    return selected


def _axes(cell: Cell) -> dict[str, Any]:
    return {"model": cell.model, "arm": cell.arm, **cell.episode.axes}


def _levels(composed: Composed, cells: list[Cell]) -> dict[str, list[Any]]:
    """Axis → its levels in this grid, in the grid's order."""
    names = ("model", "arm", *levels_of(composed.study.axes))
    described = [_axes(cell) for cell in cells]
    return {name: list(dict.fromkeys(axes[name] for axes in described)) for name in names}


def _cells(composed: Composed, models: dict[str, ModelIdentity]) -> Iterator[Cell]:
    study, spec, versions = composed.study, composed.spec, libraries()
    treatments = [(name, f"{name}/{arms.get(name).version}") for name in spec.arms]
    for model in composed.models:
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
