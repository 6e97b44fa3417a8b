"""The episodes of a grid without its cells: what `workers.audit` plays with somebody's sessions."""

from __future__ import annotations

from orchestrator import config
from workers.episode import Episode
from workers.errors import ConfigError


def episodes(*overrides: str) -> tuple[Episode, ...]:
    """The episodes of the first model that is named: for the embedded one, the 18 of the rollback study.

    Args:
        overrides: as on the command line: `model=…`, `+grid=…`, `study.levels.strength=[imperative]`.

    Raises:
        ConfigError: anything is unknown, misspelt, missing or of the wrong type, or chooses cells by their arm.
    """
    composed = config.load(list(overrides))
    if composed.run.where is not None or composed.run.limit is not None or composed.run.only:
        raise ConfigError("where=, limit= and only= choose cells, and an audit has none: name levels instead")
    return tuple(composed.spec.episodes(composed.models[0]))
