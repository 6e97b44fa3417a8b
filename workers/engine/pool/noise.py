"""How far a row's logits lie from those computed alone, measured on every row of a full batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from workers.engine.batch import BLOCK_TOKENS, Batch, KeysAndValues, layers_of
from workers.engine.handle import CacheHandle, Span
from workers.engine.pool.feeding import LEAST_QUERIES

_SEED = 20_261_201
_NUM_PARTS = 3
_DROP_EVERY = 3
"""Not a divisor of the number of probes, so that rows of every length leave and take another's place."""


class Passes(Protocol):
    """The passes of an engine on one state."""

    @property
    def prefill(self) -> Callable[[Sequence[int]], CacheHandle]:
        """Ids → a state after one pass."""

    @property
    def feed(self) -> Callable[..., Tensor]:
        """Handle, ids, keeps_all → the logits of one more pass, `[num_rows, vocab]`."""

    @property
    def fork(self) -> Callable[[CacheHandle], CacheHandle]:
        """Handle → a copy."""

    @property
    def vocab_size(self) -> int:
        """Ids that the model knows."""

    @property
    def limit(self) -> int | None:
        """Tokens beyond which the model's rotation switches."""

    @property
    def few_layers(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Leaves the model few layers for a while; None where its kernels are not proven invariant."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A state, what is fed to it, and what that gives alone.

    Attributes:
        layers: keys and values before anything is fed.
        new: ids of one pass.
        step: the id of the next.
        expected: `[num_rows, vocab]`: logits after each of these ids.
    """

    layers: list[KeysAndValues]
    hidden: tuple[Span, ...]
    new: tuple[int, ...]
    step: tuple[int, ...]
    expected: Tensor

    @classmethod
    def of(cls, passes: Passes, length: int, num_new: int, hidden: tuple[Span, ...], draw: random.Random) -> Probe:
        """Ids by chance, computed alone."""
        first, new, step = (
            tuple(draw.randrange(passes.vocab_size) for _ in range(size)) for size in (length, num_new, 1)
        )
        handle = replace(passes.prefill(first), hidden=hidden)
        layers = [(keys.clone(), values.clone()) for keys, values in layers_of(handle)]
        logits = passes.feed(handle, new, keeps_all=True)
        return cls(layers, hidden, new, step, torch.cat([logits, passes.feed(handle, step)]))


def probes(passes: Passes, num_slots: int) -> list[Probe]:
    """Few states of lengths that differ, one as long as a row can be, one that crosses a block, one with a mask."""
    draw = random.Random(_SEED)
    longest = num_slots - 8
    shapes: list[tuple[int, int, tuple[Span, ...]]] = [
        (longest, 3, ()),
        (2, 4, ()),
        (min(BLOCK_TOKENS - 2, longest), 4, ()),
        (min(33, longest), 2, ((4, 20),)),
    ]
    return [Probe.of(passes, *shape, draw) for shape in shapes]


@dataclass
class Proof:
    """What was measured of a model's batches, by shape, and why there are none.

    Attributes:
        tolerance: largest relative difference of a logit that honest kernels leave.
        refusal: why the model's states are computed alone; empty where they are not.
        rounding: of the largest logit; kernels that are not proven invariant leave that much in some pass, also where
            the probes' passes show nothing. 0 where they are proven.
    """

    tolerance: float
    refusal: str = ""
    rounding: float = 0.0
    noise: dict[str, float] = field(default_factory=dict)

    def measure(self, batch: Batch, passes: Passes) -> float | None:
        """The noise of batches of this shape, measured once; None where the model is not to be batched."""
        shape = f"{batch.num_rows}x{batch.num_slots}"
        if not self.refusal and shape not in self.noise:
            found, size = _measured(batch, passes)
            # Written so that a number that is none is refused.
            if found <= self._bound * size:
                self.noise[shape] = max(found, self.rounding * size)
            else:
                self.refusal = _apart(shape, found, size)
        return None if self.refusal else self.noise[shape]

    def recheck(self, new_batch: Callable[[int, int], Batch], passes: Passes) -> str:
        """What is wrong with a shape that was measured, if it is measured now; empty where nothing is."""
        for shape, known in self.noise.items():
            found, size = _measured(new_batch(*map(int, shape.split("x"))), passes)
            if not found <= (self._bound * size if known else 0):
                return _apart(shape, found, size)
        return ""

    @property
    def _bound(self) -> float:
        return max(self.tolerance, self.rounding)


def _apart(shape: str, found: float, size: float) -> str:
    return f"logits of up to {size:.3g} lie {found:.1e} apart in a batch of {shape} rows × slots"


def _measured(batch: Batch, passes: Passes) -> tuple[float, float]:
    """As `noise`; where kernels leave none, few layers tell, and all of them only if these differ."""
    if passes.few_layers is not None:
        with passes.few_layers():
            found, size = _tried(replace(batch, rows=[], _layers=[]), passes)
        if found == 0:
            return found, size
    return _tried(batch, passes)


def _tried(batch: Batch, passes: Passes) -> tuple[float, float]:
    return noise(batch, probes(passes, min(batch.num_slots, passes.limit or batch.num_slots)))


def noise(batch: Batch, known: Sequence[Probe]) -> tuple[float, float]:
    """Largest difference of a logit over all rows and passes, and the largest logit; the batch is empty afterwards.

    Neighbours have other lengths. Rows are fed, forget, step, leave, are replaced and copied.
    """
    rows = [known[row % len(known)] for row in range(batch.num_rows)]
    gaps = torch.stack([*_full(batch, rows), *_changed(batch, rows, known[1])])
    batch.rows.clear()
    # A number that is none is not lost in a maximum of torch's.
    return float(gaps.max()), max(float(probe.expected.abs().max()) for probe in known)


def _full(batch: Batch, rows: Sequence[Probe]) -> Iterator[Tensor]:
    for probe in rows:
        batch.put(probe.layers, probe.hidden)
    # A pass may take rows that do not stand in a run, too.
    for part in range(_NUM_PARTS):
        some = range(part, len(rows), _NUM_PARTS)
        if some:
            yield from _fed(batch, some, [rows[row] for row in some])
    for row, probe in enumerate(rows):
        batch.shorten(row, len(probe.layers[0][0][0, 0]) + len(probe.new) - 1)
    yield _gap(batch.feed(0, [probe.new[-1:] for probe in rows]), [probe.expected[-2] for probe in rows])


def _changed(batch: Batch, rows: Sequence[Probe], new: Probe) -> Iterator[Tensor]:
    """Rows leave, and another and its copy take places that were used before."""
    places = list(rows)
    for row in range(len(rows) - 1, -1, -_DROP_EVERY):
        batch.drop(row)
        last = places.pop()
        if row < len(places):
            places[row] = last
    row = batch.put(new.layers, new.hidden)
    yield from _fed(batch, [row], [new])
    places.append(new)
    if batch.num_free:
        batch.copy(row, batch.rows[row].length)
        places.append(new)
    yield _gap(batch.feed(0, [probe.step for probe in places]), [probe.expected[-1] for probe in places])


def _fed(batch: Batch, rows: Sequence[int], probes: Sequence[Probe]) -> Iterator[Tensor]:
    """Differences after each new id, one for each row."""
    logits = batch.feed(rows, [probe.new for probe in probes], keeps_all=True, least=LEAST_QUERIES)
    for found, probe in zip(logits, probes, strict=True):
        yield _gap(found[-len(probe.new) :], list(probe.expected[:-1]))


def _gap(found: Tensor, expected: Sequence[Tensor]) -> Tensor:
    return (found - torch.stack(list(expected))).abs().max()
