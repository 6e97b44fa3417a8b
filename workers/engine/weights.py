"""Weights out of GGUF files, converted once a node into a mapped file: a start reads it at once, and slots share it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from workers.engine import disk
from workers.errors import ModelError

logger = logging.getLogger(__name__)

_CONVERTERS = ("transformers", "gguf", "safetensors")
_PLACES = ("_name_or_path", "architectures")
"""Settings that say where a model is from, and nothing about what it computes."""

Load = Callable[[Path], PreTrainedModel]


def converted(path: Path, content: str, dtype: str, load: Load) -> PreTrainedModel:
    """The model inside a GGUF, its weights mapped from what an earlier start kept, if it may keep anything.

    Where it may not, the log says why, and the weights are this process's own.

    Args:
        path: the file.
        content: hash of the file and of all beside it that the model depends on.
        dtype: of the weights.
        load: makes the model of a GGUF, or of a folder with a config and safetensors.
    """
    place = disk.place("models", content, dtype, *map(disk.version, _CONVERTERS))
    kept = _read(place, load)
    if kept is not None:
        return kept
    model = load(path)
    try:
        disk.keep(place, model.save_pretrained, lambda draft: is_same(load(draft), model))
    except (OSError, SafetensorError, ModelError) as error:
        logger.warning("the converted weights of %s cannot be kept in %s: %s", path.name, place.parent, error)
        return model
    kept = _read(place, load)
    return model if kept is None else kept


def is_same(one: PreTrainedModel, other: PreTrainedModel) -> bool:
    """Whether two models compute alike: configs, parameters and buffers, those included that are never saved."""
    if _settings(one) != _settings(other):
        return False
    ours, theirs = _tensors(one), _tensors(other)
    return ours.keys() == theirs.keys() and all(
        ours[name].dtype == tensor.dtype and torch.equal(ours[name], tensor) for name, tensor in theirs.items()
    )


def _read(place: Path, load: Load) -> PreTrainedModel | None:
    """What is kept there; None where that is nothing, or not what was written."""
    if not disk.is_whole(place):
        return None
    try:
        return load(place)
    except (OSError, ValueError, SafetensorError, ModelError):
        return None


def _settings(model: PreTrainedModel) -> tuple[Any, ...]:
    config, generation = model.config.to_dict(), model.generation_config
    for name in _PLACES:
        config.pop(name, None)
    return type(model), config, None if generation is None else generation.to_dict()


def _tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    return dict((*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)))
