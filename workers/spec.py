"""What a configuration may say, as frozen, strict models. An unknown key is an error."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class Spec(BaseModel):
    """Base of everything that is configured: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class PackageSource(Spec):
    """A GGUF file inside an installed Python package."""

    kind: Literal["package"]
    package: str
    file: str


class HubSource(Spec):
    """A Hugging Face repository at one commit; weights come from the local hub cache."""

    kind: Literal["hub"]
    repo: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Commit


class LocalSource(Spec):
    """A folder with a config, a tokenizer and weights (safetensors, or one GGUF named by `file`)."""

    kind: Literal["local"]
    path: str
    file: str | None = None


class RandomSource(Spec):
    """Random weights from a transformers config class; the tokenizer is borrowed."""

    kind: Literal["random"]
    architecture: str
    """A transformers `model_type`, such as `llama`."""
    config: dict[str, Any] = {}
    seed: int = 0
    weight_scale: float = 4.0
    tokenizer: PackageSource | HubSource | LocalSource


class ScriptedSource(Spec):
    """No model: the null engine, which answers by rule. For tests and for measuring overhead."""

    kind: Literal["scripted"]
    decode_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """How long a reply takes, where the schedule is what is tried."""


Source = Annotated[PackageSource | HubSource | LocalSource | RandomSource | ScriptedSource, Field(discriminator="kind")]


class Device(Spec):
    """What one slot of the model takes from the cluster."""

    cpus: Annotated[float, Field(ge=0.01, allow_inf_nan=False)] | None = None
    """None lets the executor share out the cores of the machines (`orchestrator.executors.share`)."""
    gpus: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """A share of one, or a whole number."""

    @property
    def num_cpus(self) -> float:
        """CPUs of a slot; 1 where nobody has shared them out."""
        return 1 if self.cpus is None else self.cpus

    def times(self, size: int) -> Device:
        """So many times as large: in GPUs where it takes any, else in CPUs."""
        if not self.gpus:
            return self.model_copy(update={"cpus": self.num_cpus * size})
        gpus = self.gpus * size
        return self.model_copy(update={"gpus": gpus if gpus <= 1 else float(math.ceil(gpus))})

    @field_validator("cpus", "gpus")
    @classmethod
    def _has_four_decimals(cls, amount: float | None) -> float | None:
        """Ray counts in steps of 0.0001."""
        if amount is not None and round(amount, 4) != amount:
            raise ValueError("should have at most four decimals")
        return amount

    @field_validator("gpus")
    @classmethod
    def _share_or_whole(cls, gpus: float) -> float:
        if gpus > 1 and not gpus.is_integer():
            raise ValueError("should be at most 1, or a whole number")
        return gpus


class ModelSpec(Spec):
    """One model as its YAML declares it; `name` is the stem of that file."""

    name: str
    source: Source
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    attention: Literal["eager", "sdpa", "flash_attention_2"] = "sdpa"
    device: Device = Device()
    reply_format: str
    roles: dict[str, str]
    """Vehicle → the chat role in which the branch enters this model's template."""
    max_new_tokens: Annotated[int, Field(ge=1, le=32768)] | None = None
    """Decode budget where the study's is too small for this model's replies."""
    chat_template: str | None = None
    """Only where the model brings none of its own."""
    clock: date | None = None
    """The day that a template which prints the date is given; such a template is refused without one."""
    template_arguments: dict[str, Any] = {}
    """Variables of the chat template, such as `enable_thinking: false`; one that it does not read is an error."""
    system: Literal["keep", "fold"] = "keep"
    """`fold`: the system turn opens the first user turn, for templates that take no system role."""
    acknowledgement: Annotated[str, StringConstraints(pattern=r"\S")] | None = None
    """What the assistant says between two turns that are not its own, for templates whose roles must alternate."""


class Decode(Spec):
    """How one trial is decoded: greedily at temperature 0, else by draws from a keyed stream."""

    max_new_tokens: int
    temperature: float = 0.0
    seed: int = 0

    @property
    def is_greedy(self) -> bool:
        """Whether there is nothing to draw."""
        return self.temperature == 0

    @property
    def text(self) -> str:
        """As it enters a cell's identity: canonical JSON, the seed only where something is drawn."""
        fields = self.model_dump(mode="json", exclude={"seed"} if self.is_greedy else set())
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))


LEAST_TEMPERATURE = 0.001
"""Logits divided by less than that end in infinities, which tie."""


class DecodeSpec(Spec):
    """How a study's trials are decoded. Each temperature is a level of its own; a greedy cell has one draw."""

    max_new_tokens: Annotated[int, Field(ge=1, le=4096)] = 24
    num_draws: Annotated[int, Field(ge=1, le=100_000)] = 1
    temperature: tuple[Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)], ...] = (0.0,)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @field_validator("temperature", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        return given if isinstance(given, list | tuple) else (given,)

    @field_validator("temperature")
    @classmethod
    def _levels_differ(cls, levels: tuple[float, ...]) -> tuple[float, ...]:
        if not levels or len(set(levels)) < len(levels):
            raise ValueError("should name at least one temperature, and none twice")
        if any(0 < level < LEAST_TEMPERATURE for level in levels):
            raise ValueError(f"should be 0, which is greedy, or at least {LEAST_TEMPERATURE}")
        return tuple(abs(level) for level in levels)  # -0.0 would be another cell than 0.0

    @model_validator(mode="after")
    def _draws_differ(self) -> Self:
        if self.num_draws > 1 and not any(self.temperature):
            raise ValueError(
                f"num_draws={self.num_draws} at temperature 0 would record one reply as often: it is greedy"
            )
        return self

    def each(self, max_new_tokens: int | None = None) -> tuple[tuple[Decode, int], ...]:
        """The settings of each temperature and its number of draws, with a model's own budget where it has one."""
        budget = max_new_tokens or self.max_new_tokens
        decodes = [Decode(max_new_tokens=budget, temperature=level, seed=self.seed) for level in self.temperature]
        return tuple((decode, 1 if decode.is_greedy else self.num_draws) for decode in decodes)
