"""What one tenant's abort takes from the tenants of one server, restored alone or by flushing every cache. Pure.

The model of arXiv 2608.15939: each tenant holds a cache of so many tokens, and a cache that is gone is prefilled again
in t(n). Whatever else a flush does (queues, deadlines) is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from analysis.cost.prefill import Curve
from analysis.errors import AnalysisError

Scope = Literal["local", "global"]
"""Whose caches an abort gives up: the aborting transaction's, or everybody's."""


class Loss(NamedTuple):
    """A tenant whose cache went, and what it takes to have it back."""

    tenant: int
    num_tokens: int
    ms: Fraction


def losses(tokens: Sequence[int], aborting: int, scope: Scope, curve: Curve) -> tuple[Loss, ...]:
    """The tenants that have to be prefilled again after one abort, in their order.

    Args:
        tokens: what each tenant's cache holds after the restore; 0 for one that has none and so loses nothing.
        aborting: position of the tenant that aborts.
    """
    caches = dict(enumerate(tokens))
    for tenant in [aborting] if scope == "local" else list(caches):
        del caches[tenant]
    gone = ((tenant, size) for tenant, size in enumerate(tokens) if tenant not in caches and size)
    return tuple(Loss(tenant, size, curve.ms(size)) for tenant, size in gone)


@dataclass(frozen=True, slots=True)
class Price:
    """One abort, restored locally and by a global flush.

    Attributes:
        num_hit_local: tenants other than the aborting one that lose their cache; always none.
        num_hit_global: the same after a flush.
    """

    local_ms: Fraction
    global_ms: Fraction
    num_hit_local: int
    num_hit_global: int

    @property
    def ratio(self) -> Fraction:
        """Global over local: the number of tenants, where all hold alike."""
        return self.global_ms / self.local_ms


def price(curve: Curve, tokens: Sequence[int], aborting: int = 0) -> Price:
    """What the abort of one tenant costs either way.

    Args:
        tokens: of each tenant; the aborting one's not 0.

    Raises:
        AnalysisError: the aborting tenant holds nothing, or the curve is not positive at one of the lengths.
    """
    if not tokens[aborting]:
        raise AnalysisError("the tenant that aborts holds no tokens: there is nothing to restore")
    local, flushed = losses(tokens, aborting, "local", curve), losses(tokens, aborting, "global", curve)
    return Price(_total(local), _total(flushed), _others(local, aborting), _others(flushed, aborting))


def _total(found: Sequence[Loss]) -> Fraction:
    return sum((loss.ms for loss in found), Fraction(0))


def _others(found: Sequence[Loss], aborting: int) -> int:
    return sum(loss.tenant != aborting for loss in found)
