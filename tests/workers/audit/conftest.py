"""A tiny random model, on which every leftover changes the reply, and two episodes."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch

from orchestrator import config
from orchestrator.episodes import episodes
from workers import engine as engines
from workers.engine import Engine
from workers.episode import Episode


def loaded(name: str) -> Engine:
    (model,) = config.load([f"model={name}"]).models
    return engines.load(model, num_threads=1)


@pytest.fixture(scope="session")
def tiny() -> Engine:
    return loaded("random-llama")


@pytest.fixture(scope="session")
def hybrid() -> Engine:
    return loaded("random-qwen3-next")


@pytest.fixture(scope="session")
def smollm2() -> Engine:
    return loaded("smollm2-135m")


@pytest.fixture(scope="session")
def mute(tiny: Engine) -> Engine:
    """The same model, of which every state gets the same reply: as resistant as a model can be."""
    model = copy.deepcopy(tiny._model)
    model.lm_head = torch.nn.Linear(model.config.hidden_size, model.config.vocab_size, bias=False)
    torch.nn.init.zeros_(model.lm_head.weight)
    return engines.around(model, tiny._chat._tokenizer, chat_template=tiny._chat.model.chat_template)


@pytest.fixture(scope="session")
def two() -> Sequence[Episode]:
    levels = ("study.levels.strength=[imperative]", "study.levels.kind=[attack]")
    return episodes("model=random-llama", *levels, "study.levels.vehicle=[tool_return,user_turn]")
