"""How far a row's logits lie from those computed alone, measured on every row of a full batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from workers.engine.batch import BLOCK_TOKENS, Batch, KeysAndValues, layers_of
from workers.engine.handle import CacheHandle, Span
from workers.engine.pool.feeding import LEAST_QUERIES

_SEED = 20_261_201
_NUM_SCORED = 2
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
    def limit(self) -> int | None:
        """Tokens beyond which the model's rotation switches."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A state, what is fed to it, and what that gives alone.

    Attributes:
        layers: keys and values before anything is fed.
        feeds: ids of the four passes: those that wait, those that are scored and forgotten, and two steps.
        expected: logits of each pass, `[num_rows, vocab]`: of the scored ids all, of the others the last.
    """

    layers: list[KeysAndValues]
    hidden: tuple[Span, ...]
    feeds: tuple[tuple[int, ...], ...]
    expected: tuple[Tensor, ...]

    @classmethod
    def of(cls, passes: Passes, length: int, num_new: int, hidden: tuple[Span, ...], draw: random.Random) -> Probe:
        """Random ids, computed alone."""
        num_ids = passes.prefill((0,)).logits
        assert num_ids is not None
        first, new, scored, *steps = (
            tuple(draw.randrange(len(num_ids)) for _ in range(size)) for size in (length, num_new, _NUM_SCORED, 1, 1)
        )
        handle = replace(passes.prefill(first), hidden=hidden)
        layers = [(keys.clone(), values.clone()) for keys, values in layers_of(handle)]
        logits = [passes.feed(handle, new)]
        logits.append(passes.feed(passes.fork(handle), scored, keeps_all=True))
        logits += [passes.feed(handle, ids) for ids in steps]
        return cls(layers, hidden, (new, scored, *steps), tuple(logits))


def probes(passes: Passes, num_slots: int) -> list[Probe]:
    """Few states of lengths that differ, one as long as a row can be, one that crosses a block, one with a mask."""
    draw = random.Random(_SEED)
    longest = num_slots - 8
    shapes: list[tuple[int, int, tuple[Span, ...]]] = [
        (longest, 2, ()),
        (2, 5, ()),
        (min(BLOCK_TOKENS - 3, longest), 5, ()),
        (min(33, longest), 1, ((4, 20),)),
    ]
    return [Probe.of(passes, *shape, draw) for shape in shapes]


@dataclass
class Proof:
    """What was measured of a model's batches, by shape, and why there are none.

    Attributes:
        tolerance: largest relative difference of a logit that honest kernels leave.
        refusal: why the model's states are computed alone; empty where they are not.
    """

    tolerance: float
    refusal: str = ""
    noise: dict[str, float] = field(default_factory=dict)

    def measure(self, batch: Batch, passes: Passes) -> float | None:
        """The noise of batches of this shape, measured once; None where the model is not to be batched."""
        shape = f"{batch.num_rows}x{batch.num_slots}"
        if not self.refusal and shape not in self.noise:
            found, size = noise(batch, probes(passes, min(batch.num_slots, passes.limit or batch.num_slots)))
            # Written so that a number that is none is refused.
            if found <= self.tolerance * size:
                self.noise[shape] = found
            else:
                self.refusal = f"logits of up to {size:.3g} lie {found:.1e} apart in a batch of {shape} rows × slots"
        return None if self.refusal else self.noise[shape]


def noise(batch: Batch, known: Sequence[Probe]) -> tuple[float, float]:
    """Largest difference of a logit over all rows and passes, and the largest logit; the batch is empty afterwards.

    Neighbours have other lengths. Rows are fed what waits, are scored and forget it, step, leave, and are replaced.
    """
    rows = [known[row % len(known)] for row in range(batch.num_rows)]
    gaps = [*_full(batch, rows), *_left(batch, rows, known)]
    batch.rows.clear()
    size = max(float(logits.abs().max()) for probe in known for logits in probe.expected)
    # A number that is none must not be lost in a maximum.
    return float(torch.stack(gaps).max()), size


def _full(batch: Batch, rows: Sequence[Probe]) -> Iterator[Tensor]:
    for probe in rows:
        batch.put(probe.layers, probe.hidden)
    yield _gap(_in_parts(batch, [probe.feeds[0] for probe in rows]), (probe.expected[0] for probe in rows))
    lengths = [row.length for row in batch.rows]
    scored = _in_parts(batch, [probe.feeds[1] for probe in rows], keeps_all=True)
    yield _gap(scored[:, -_NUM_SCORED:], (probe.expected[1] for probe in rows))
    for row, length in enumerate(lengths):
        batch.shorten(row, length)
    yield _gap(batch.feed(0, [probe.feeds[2] for probe in rows]), (probe.expected[2] for probe in rows))


def _left(batch: Batch, rows: list[Probe], known: Sequence[Probe]) -> Iterator[Tensor]:
    """Rows leave, new ones take a place at the end, and one is a copy."""
    places = [(probe, 3) for probe in rows]
    for row in range(len(rows) - 1, -1, -_DROP_EVERY):
        batch.drop(row)
        last = places.pop()
        if row < len(places):
            places[row] = last
    if places:
        probe = known[1]
        row = batch.put(probe.layers, probe.hidden)
        yield _gap(batch.feed([row], [probe.feeds[0]], least=LEAST_QUERIES), [probe.expected[0]])
        places.append((probe, 2))
        if batch.num_free:
            batch.copy(row, batch.rows[row].length)
            places.append((probe, 2))
    yield _gap(
        batch.feed(0, [probe.feeds[step] for probe, step in places]), (probe.expected[step] for probe, step in places)
    )


def _in_parts(batch: Batch, ids: Sequence[tuple[int, ...]], *, keeps_all: bool = False) -> Tensor:
    """Every third row in one pass, as rows of a like length are: a pass may take rows that do not stand in a run."""
    logits: dict[int, Tensor] = {}
    for part in range(3):
        rows = list(range(part, len(ids), 3))
        fed = batch.feed(rows, [ids[row] for row in rows], keeps_all=keeps_all, least=LEAST_QUERIES) if rows else ()
        logits.update(zip(rows, fed, strict=True))
    longest = min(len(fed) for fed in logits.values())
    return torch.stack([logits[row][-longest:] if keeps_all else logits[row] for row in range(len(ids))])


def _gap(found: Tensor, expected: Iterable[Tensor]) -> Tensor:
    wanted = torch.stack([logits if found.dim() == 3 else logits[-1] for logits in expected])
    return (found - wanted).abs().max()
