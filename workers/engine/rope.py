"""Rotary embeddings that change with the total length: cached keys keep the old rotation, so no pass may cross over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedConfig

from workers.errors import IsolationError


@dataclass(frozen=True, slots=True)
class RopeLimit:
    """The length at which a model's rotation switches.

    Attributes:
        limit: tokens up to which the first rotation holds; None for models that never switch.
        is_dynamic: above the limit the rotation follows the longest sequence that the *module* ever saw (dynamic NTK),
            so that one session changes another's keys: nothing may go there, not even in a single pass.
    """

    limit: int | None = None
    is_dynamic: bool = False

    @classmethod
    def of(cls, config: PreTrainedConfig) -> RopeLimit:
        """Read the limit from the config; the strictest one where layers differ."""
        parameters: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
        kinds = [value for value in parameters.values() if isinstance(value, dict)] or [parameters]
        switching = [kind for kind in kinds if kind.get("rope_type") in ("longrope", "dynamic")]
        if not switching:
            return cls()
        limit = min(
            kind.get("original_max_position_embeddings") or config.max_position_embeddings for kind in switching
        )
        return cls(limit, any(kind["rope_type"] == "dynamic" for kind in switching))

    def check_span(self, shortest: int, longest: int) -> None:
        """Refuse an episode whose contexts lie on both sides of the switch, whether or not a reply gets that far.

        Raises:
            IsolationError: its arms, or the steps of one reply, would be compared under different rotations.
        """
        if self.limit is not None and longest > self.limit and (self.is_dynamic or shortest <= self.limit):
            self._refuse(shortest, longest)

    def check_feed(self, before: int, after: int) -> None:
        """Refuse to continue a cache of `before` tokens up to `after` under another rotation.

        Raises:
            IsolationError: the rotation of the cached keys would no longer be the model's.
        """
        if self.limit is None or after <= self.limit:
            return
        if self.is_dynamic or 0 < before <= self.limit:
            self._refuse(before, after)

    def check_crop(self, before: int, after: int) -> None:
        """Refuse to keep keys that a longer context rotated.

        Raises:
            IsolationError: the keys that stay carry the dropped tokens' rotation.
        """
        if self.limit is not None and before > self.limit >= after:
            self._refuse(before, after)

    def _refuse(self, before: int, after: int) -> None:
        raise IsolationError("rope_switch", f"{before} to {after} tokens crosses the rotary limit of {self.limit}")
