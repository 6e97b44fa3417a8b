"""Ids in columns: sixteen bytes each and no object a row, so that a million take sixteen megabytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_ID = "0" * 32
"""Stands for what is no id: a hash is not expected to be nought."""


class Ids:
    """Ids of 128 bits, in an order.

    Args:
        data: sixteen bytes an id.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Ids:
        """Ids from their 32 hex digits. What is anything else becomes `NO_ID`, which is found nowhere."""
        found = list(texts)
        try:
            data = bytes.fromhex("".join(found))  # type: ignore[arg-type]
            is_sound = set(map(len, found)) <= {32} and len(data) == 16 * len(found)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound:
            data = bytes.fromhex("".join(text if text and _HEX.fullmatch(text) else NO_ID for text in found))
        return cls(data)

    def __len__(self) -> int:
        return len(self.data) // 16

    def __getitem__(self, at: int) -> str:
        return self.data[16 * at : 16 * at + 16].hex()

    def __iter__(self) -> Iterator[str]:
        return (self[at] for at in range(len(self)))

    def take(self, rows: Ints) -> Ids:
        """Those at these places."""
        return Ids(np.frombuffer(self.data, dtype="V16")[rows].tobytes())

    def find(self, wanted: Ids) -> Ints:
        """The place of each wanted id here, -1 where it is not. No id stands here twice."""
        found = np.full(len(wanted), -1, dtype=np.int64)
        high, low = wanted._halves
        at = np.searchsorted(self._sorted[0], high)
        # More than one step only where two ids agree in their first 64 bits.
        for _ in range(self._longest_run):
            at = np.minimum(at, len(self) - 1)
            is_hit = (self._sorted[0][at] == high) & (self._sorted[1][at] == low)
            found[is_hit] = self._order[at[is_hit]]
            at = at + 1
        return found

    @cached_property
    def _halves(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        both = np.frombuffer(self.data, dtype=">u8").reshape(-1, 2)
        return both[:, 0].astype(np.uint64), both[:, 1].astype(np.uint64)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self._halves[0], kind="stable")

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        high, low = self._halves
        return high[self._order], low[self._order]

    @cached_property
    def _longest_run(self) -> int:
        """How many ids agree in their first half at most."""
        counts = np.unique(self._sorted[0], return_counts=True)[1]
        return int(counts.max(initial=0))


_HEX = re.compile("[0-9a-f]{32}")
