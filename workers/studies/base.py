"""What a study is to the rest: texts in, episodes out; replies in, measures out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from workers.schema import Column
from workers.spec import DecodeSpec, ModelSpec

if TYPE_CHECKING:
    from workers.block import Row
    from workers.engine import Decoded
    from workers.episode import Episode, Message


class StudySpec(Protocol):
    """A study's validated configuration: its levels, arms, decode settings and texts."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the order in which they are reported."""

    @property
    def decode(self) -> DecodeSpec:
        """How a trial is decoded."""

    def episodes(self, model: ModelSpec) -> Iterator[Episode]:
        """Every episode of the grid for one model, in an order that never depends on the machine.

        Raises:
            ConfigError: the model lacks what the study needs (a reply format, a role).
        """


@runtime_checkable
class LargeSpec(StudySpec, Protocol):
    """A study that can make one of its episodes without the others, so that a large grid need not keep them."""

    def writing(self, model: ModelSpec) -> Sequence[Episode]:
        """The same episodes, each made when it is looked at; looked at again, it is equal.

        Raises:
            ConfigError: as `episodes`.
        """


def written(spec: StudySpec, model: ModelSpec) -> Sequence[Episode]:
    """The episodes of one model: kept, or made anew whenever they are looked at, where the study can."""
    return spec.writing(model) if isinstance(spec, LargeSpec) else tuple(spec.episodes(model))


@dataclass(frozen=True, slots=True)
class Study:
    """One experiment family. A module of this package defines one and names it `STUDY`.

    Attributes:
        version: raise it when the meaning of episodes or measures changes; every cell of the study becomes new.
        axes: the axis columns, in order; each is a key of `Episode.axes`.
        measures: the columns that `measure` fills.
        reference: the arm whose reply defines the right answer (competence, Layer 2).
    """

    name: str
    version: int
    axes: tuple[Column, ...]
    measures: tuple[Column, ...]
    reference: str
    spec: type[Any]
    """A `workers.spec.Spec` that is also a `StudySpec`."""
    judge: Judge
    before: Mapping[str, Any] = field(default_factory=dict)
    """Axis → level of the rows that were recorded before there was that axis."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Axis columns, then measures."""
        return (*self.axes, *self.measures)


class Judge(Protocol):
    """Turns one decision into the study's measures."""

    def texts(self, episode: Episode) -> tuple[str, ...]:
        """What is scored as the continuation of the decision state, before the reply; none of it is empty."""

    def scored(self, scores: Sequence[float], episode: Episode) -> Mapping[str, Any]:
        """Measures read from the log-probabilities (nats) of these texts, in order."""

    def read(self, decoded: Decoded, episode: Episode, transcript: Sequence[Message]) -> Mapping[str, Any]:
        """Measures read from the reply. Never raises: a reply is hostile text.

        Args:
            transcript: the logical transcript that led to the decision, as the arm's application shows it.
        """

    def tally(self, rows: Sequence[Row]) -> Mapping[str, int]:
        """Arm → flips among the rows of one block. For the display; SQL has the last word."""


def levels_of(axes: Sequence[Column]) -> tuple[str, ...]:
    """The axis names."""
    return tuple(column.name for column in axes)
