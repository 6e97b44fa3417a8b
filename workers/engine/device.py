"""What a model computes on, as its rows say it."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel


def name_of(model: PreTrainedModel) -> str:
    """The GPU's name, or how many threads the CPU gives it."""
    if model.device.type == "cuda":
        return torch.cuda.get_device_name(model.device)
    return f"{model.device.type}, {torch.get_num_threads()} threads"
