"""Cost: what does a restore take, by the length of what it restores? The cost model of arXiv 2608.15939.

The arms and their clocks are those of every other study: `restore_ms` and `prefill_ms` are core columns, and this study
adds nothing but prefixes of many lengths. Nobody judges the replies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice, product
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from workers.episode import Episode, Message
from workers.schema import INT, Column
from workers.spec import DecodeSpec, ModelSpec, Spec
from workers.studies.base import Study

if TYPE_CHECKING:
    from workers.block import Row
    from workers.engine import Decoded, Engine, Handle


class Levels(Spec):
    """The axes' levels, each at least one and none twice."""

    num_words: tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...]
    repeat: tuple[Annotated[int, Field(ge=0)], ...]

    @model_validator(mode="after")
    def _differ(self) -> Self:
        for axis, levels in (("num_words", self.num_words), ("repeat", self.repeat)):
            if not levels or len(set(levels)) < len(levels):
                raise ValueError(f"{axis} should name at least one level, and none twice")
        return self


class Texts(Spec):
    """What the turns say."""

    opening: Annotated[str, Field(pattern=r"\{repeat\}")]
    """Before everything else, so that no two repeats share a first word."""
    passage: Annotated[str, Field(pattern=r"\w")]
    """Said over and over, up to the length that is asked for."""
    branch: Annotated[str, Field(pattern=r"\w")]
    finalize: Annotated[str, Field(pattern=r"\w")]
    marker: Annotated[str, Field(pattern=r"\w")]
    """A word of the branch that the delta must not hold."""

    @model_validator(mode="after")
    def _marker_is_the_branchs(self) -> Self:
        if self.marker not in self.branch:
            raise ValueError(f"branch does not say the marker {self.marker!r}")
        return self


class CostSpec(Spec):
    """The study's levels, arms, decode settings and texts."""

    name: Literal["cost"]
    arms: tuple[str, ...]
    decode: DecodeSpec = DecodeSpec(max_new_tokens=1)
    levels: Levels
    texts: Texts

    def episodes(self, model: ModelSpec) -> Iterator[Episode]:  # noqa: ARG002
        """One episode a length and repeat, the repeats of all lengths in turn.

        A machine that grows slower or warmer during the run then does so for every length.
        """
        for repeat, num_words in product(self.levels.repeat, self.levels.num_words):
            yield self._episode(num_words, repeat)

    def _episode(self, num_words: int, repeat: int) -> Episode:
        texts = self.texts
        said = " ".join(islice(cycle(texts.passage.split()), num_words))
        turns = (texts.opening.replace("{repeat}", str(repeat)) + said, texts.branch, texts.finalize)
        committed, branch, finalize = ((Message("user", text),) for text in turns)
        axes = {"num_words": num_words, "repeat": repeat}
        return Episode("cost", axes, committed, branch, finalize, carriers=(texts.marker,), facts={})


class CostJudge:
    """Has no opinion: what counts is in the core columns."""

    def score(self, engine: Engine, handle: Handle, episode: Episode) -> Mapping[str, Any]:  # noqa: ARG002
        """Nothing, so that nothing is timed beside the restore."""
        return {}

    def read(self, decoded: Decoded, episode: Episode, transcript: Sequence[Message]) -> Mapping[str, Any]:  # noqa: ARG002
        """Nothing: a reply of one token is not a decision."""
        return {}

    def tally(self, rows: Sequence[Row]) -> Mapping[str, int]:  # noqa: ARG002
        """No flips."""
        return {}


STUDY = Study(
    name="cost",
    version=1,
    axes=(
        Column("num_words", INT, True, "words of the passage in the committed prefix"),
        Column("repeat", INT, True, "number of the repetition, from 0; each is a session of its own"),
    ),
    measures=(),
    reference="cold",
    spec=CostSpec,
    judge=CostJudge(),
)
