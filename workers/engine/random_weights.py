"""A model of any architecture from its config class, with random weights that no other random state touches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from workers.errors import ModelError, nearest
from workers.spec import RandomSource

_UNDECLARED = ("head_dim",)
"""Read by many models whose config class does not declare it."""


def build(source: RandomSource, *, num_tokens: int, dtype: torch.dtype, attention: str) -> PreTrainedModel:
    """The model, on the CPU: the same weights for the same source, wherever it runs afterwards.

    Raises:
        ModelError: there is no such architecture, or its config has no such key.
    """
    config = _config(source, num_tokens)
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(source.seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    _scale(model, source.weight_scale)
    return model


def _config(source: RandomSource, num_tokens: int) -> PreTrainedConfig:
    if source.architecture not in CONFIG_MAPPING:
        raise ModelError(f"unknown architecture {source.architecture!r}{_near(source.architecture, CONFIG_MAPPING)}")
    # transformers takes any key and ignores those it does not know, which would be another experiment than asked for.
    plain: Any = CONFIG_MAPPING[source.architecture]()
    known = {*plain.to_dict(), *type(plain).attribute_map, *_UNDECLARED}
    for key in source.config:
        if key not in known:
            raise ModelError(f"{source.architecture} has no config key {key!r}{_near(key, known)}")
    config = AutoConfig.for_model(source.architecture, **{"vocab_size": num_tokens} | source.config)
    if config.get_text_config(decoder=True).vocab_size < num_tokens:
        raise ModelError(f"vocab_size {config.vocab_size} is smaller than the tokenizer's {num_tokens}")
    return config


def _near(name: str, known: Iterable[str]) -> str:
    """A likely spelling; the whole list (hundreds of names) would help nobody."""
    hint = nearest(name, known)
    return hint if hint.startswith(",") else ""


def _scale(model: PreTrainedModel, factor: float) -> None:
    """Scale the matrices, so that contexts show in the logits; a decay rate (`A_log`) would stop remembering."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2 and not name.endswith("A_log"):
                weight.mul_(factor)
