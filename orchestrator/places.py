"""Machines and devices: which of them fails what others finish. Pure."""

from __future__ import annotations

from orchestrator.history import OF_THE_PLACE, Fall, History

CORDON_AT = 2
"""Failures in a row, without a block done there in between, of blocks that were then done elsewhere."""


class Places:
    """What happened where, and the places that get no more blocks.

    Attributes:
        cordoned: place → why.
    """

    def __init__(self) -> None:
        self.cordoned: dict[str, str] = {}
        self._num_falls = 0
        self._doubts: dict[str, set[int]] = {}
        self._trusted_at: dict[str, int] = {}

    def numbered(self) -> int:
        """The number of the failure that happened now."""
        self._num_falls += 1
        return self._num_falls

    def done(self, place: str, history: History) -> str | None:
        """A block was done at `place`, after this history; the place that is cordoned for it, if one is."""
        self._doubts.pop(place, None)
        self._trusted_at[place] = self._num_falls
        for fall in history.falls:
            if fall.place not in ("", place) and self._is_telling(fall):
                found = self._doubts.setdefault(fall.place, set())
                found.add(fall.number)
                if len(found) >= CORDON_AT and fall.place not in self.cordoned:
                    self.cordoned[fall.place] = f"{len(found)} blocks failed there in a row and were done elsewhere"
                    return fall.place
        return None

    def _is_telling(self, fall: Fall) -> bool:
        return fall.failure in OF_THE_PLACE and fall.number > self._trusted_at.get(fall.place, 0)
