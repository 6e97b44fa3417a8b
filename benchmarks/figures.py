"""What a comparison of loop and product comes to: seconds, ratios and the ideal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks import measure
from benchmarks.ideal import Ideal, Rates, Weights, Work, ideal
from benchmarks.trials import Sharing, Situation

BATCH = 64
"""Rows to a step in the ideal; more brought nothing on the machines that were measured."""


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """The loop's trials.

    Attributes:
        reply_s, scores_s: seconds of each trial it ran, the forced choice apart.
        num_episodes: that it ran, of `num_all`.
        num_trials: that all episodes have.
    """

    reply_s: Sequence[float]
    scores_s: Sequence[float]
    num_episodes: int
    num_all: int
    num_trials: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing is estimated."""
        return self.num_episodes == self.num_all

    @property
    def replies_s(self) -> float:
        """All trials, without the forced choice: as many times the mean trial."""
        return self._all(self.reply_s)

    @property
    def total_s(self) -> float:
        """All trials, with the forced choice."""
        return self._all([*self.reply_s, *self.scores_s])

    def _all(self, seconds: Sequence[float]) -> float:
        return sum(seconds) * self.num_trials / len(self.reply_s)


@dataclass(frozen=True, slots=True)
class ProductTimes:
    """One way of the product.

    Attributes:
        engine_s: seconds in the engine, a value a round.
        worker_s: seconds of all blocks, with every check and the commit, a value a round.
        work: what had to be computed in it.
    """

    name: str
    engine_s: Sequence[float]
    worker_s: Sequence[float]
    work: Work


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is printed.

    Attributes:
        different: trials whose replies are not equal on both sides.
        num_compared: replies of the loop, each held against every round of the product.
    """

    title: str
    loop: LoopTimes
    product: Sequence[ProductTimes]
    sharing: Mapping[str, Sharing]
    weights: Weights
    rates: Rates
    different: Sequence[str]
    num_compared: int
    setting: str

    def ideal(self, times: ProductTimes) -> Ideal:
        """The least that this way could take."""
        return ideal(times.work, self.weights, self.rates, BATCH)


def work_of(
    found: Mapping[str, tuple[Situation, Sequence[str]]], shared: Mapping[str, Sharing], rows: Sequence[dict[str, Any]]
) -> Work:
    """What had to be computed for these rows: replies that others were decoded with are no work."""
    own = [row for row in rows if row["status"] == "done" and row["decoded_with"] is None]
    texts = {episode_id: sum(map(len, one.texts)) for episode_id, (one, _) in found.items()}
    return Work(
        num_prefill=sum(tokens.num_unique for tokens in shared.values()),
        num_decode=sum(row["decode_tokens"] + (row["stop"] == "eos") for row in own),
        num_scored=sum(texts[row["episode_id"]] for row in own),
        num_rows=len(own),
    )


def report(figures: Figures) -> Iterator[str]:
    """Tables and what they rest on."""
    loop = figures.loop
    yield figures.title
    yield ""
    yield from measure.table(_HEADER, [*_loop_rows(loop), *(_product_row(figures, one) for one in figures.product)])
    yield ""
    yield from measure.table(("class", "asked tokens", "unique", "ratio"), _sharing_rows(figures.sharing))
    yield ""
    yield from _replies(figures)
    yield from _assumptions(figures)
    yield figures.setting
    yield measure.machine()


_HEADER = (
    "side",
    "engine s",
    "× the loop",
    "attained / ideal",
    "whole worker s",
    "× the loop",
    "attained / ideal",
    "replies decoded",
    "ideal s",
)


def _loop_rows(loop: LoopTimes) -> Iterator[tuple[str, ...]]:
    how = "" if loop.is_whole else f", estimated from {loop.num_episodes} of {loop.num_all} episodes"
    both = [reply + score for reply, score in zip(loop.reply_s, loop.scores_s, strict=True)]
    rest = ("", "", "", "", "", str(loop.num_trials), "")
    yield f"per-arm loop, replies and scores{how}", f"{loop.total_s:.4g}", *rest
    yield f"per-arm loop, replies alone{how}", f"{loop.replies_s:.4g}", *rest
    yield "… ms a trial, with and without scores", f"{_ms(both)} · {_ms(loop.reply_s)}", *[""] * 7


def _ms(seconds: Sequence[float]) -> str:
    return measure.spread([1000 * value for value in seconds])


def _product_row(figures: Figures, times: ProductTimes) -> tuple[str, ...]:
    least, loop_s = figures.ideal(times).total_s, figures.loop.total_s
    cells: list[str] = []
    for seconds in (times.engine_s, times.worker_s):
        took = median(seconds)
        cells += [measure.spread(seconds), f"**{loop_s / took:.1f}**", f"{least / took:.2f}"]
    return f"Residue, {times.name}", *cells, str(times.work.num_rows), f"{least:.3g}"


def _sharing_rows(shared: Mapping[str, Sharing]) -> Iterator[tuple[str, ...]]:
    every = Sharing(sum(one.num_asked for one in shared.values()), sum(one.num_unique for one in shared.values()))
    for name, tokens in (*shared.items(), ("all", every)):
        ratio = tokens.num_asked / max(1, tokens.num_unique)
        yield name, str(tokens.num_asked), str(tokens.num_unique), f"{ratio:.1f}"


def _replies(figures: Figures) -> Iterator[str]:
    equal = figures.num_compared - len(set(figures.different))
    yield f"Reply ids equal in {equal} of {figures.num_compared} trials that both sides ran, in every round."
    if figures.different:
        yield f"DIFFERENT: {', '.join(sorted(set(figures.different))[:10])}"


def _assumptions(figures: Figures) -> Iterator[str]:
    yield (
        f"Ideal: each unique token of each class once through {figures.weights.num_body / 1e6:.3g} million weights at "
        f"the measured {figures.rates.flops / 1e9:.0f} GF/s, the Layer-1 reference included; decoding at the later of "
        f"two bounds, all products or {figures.weights.num_bytes / 1e6:.0f} MB of weights a step of {BATCH} rows at "
        f"{figures.rates.bytes / 1e9:.0f} GB/s; scored texts at the matrix rate. Attention, digests, Layer 1, judging "
        "and Parquet cost nothing in it."
    )
    for times in figures.product:
        least = figures.ideal(times)
        yield (
            f"{times.name}: prefill {least.prefill_s:.3g} s, decoding {least.decode_by_products_s:.3g} s by products "
            f"and {least.decode_by_memory_s:.3g} s by memory, scores {least.scores_s:.3g} s."
        )
