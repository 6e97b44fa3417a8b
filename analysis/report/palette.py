"""One colour per arm, the same everywhere, told apart by colour-blind readers; always beside the arm's name."""

from __future__ import annotations

from collections.abc import Iterable

OKABE_ITO = {
    "stale": "#D55E00",
    "text_present": "#E69F00",
    "fresh": "#009E73",
    "cold": "#0072B2",
    "checkpoint": "#56B4E9",
    "truncate": "#CC79A7",
    "truncate_recorded": "#000000",
    "position_control": "#F0E442",
}
"""Okabe and Ito, Color Universal Design (2008), assigned for good: an arm keeps its colour from page to page."""
SPARE = ("#332288", "#882255", "#117733", "#999933", "#661100", "#6699CC", "#AA4499", "#44AA99")
"""Paul Tol's muted scheme (2021), for arms of other studies, by name."""
PLAIN = "#767676"


def colours(arms: Iterable[str]) -> dict[str, str]:
    """Arm → colour. Beyond the palette arms are grey: a repeated colour would say that two arms are one."""
    others = sorted(set(arms) - OKABE_ITO.keys())
    return OKABE_ITO | {arm: SPARE[at] if at < len(SPARE) else PLAIN for at, arm in enumerate(others)}
