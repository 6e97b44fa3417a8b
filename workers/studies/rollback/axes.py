"""The columns of the study: its axes, and what it measures."""

from __future__ import annotations

from workers import executor
from workers.schema import BOOL, FLOAT, TEXT, Column

AXES = (
    Column("surface", TEXT, True, "where the abort happens"),
    Column("effect_type", TEXT, True, "the protected action at stake"),
    Column("policy", TEXT, True, "structure of the committed rule"),
    Column("guard", BOOL, True, "whether the system turn warns of rejected content, in every arm"),
    Column("content", TEXT, True, "who wrote the branch: ours, or AgentDojo's suite and injection task"),
    Column("vehicle", TEXT, True, "how the branch's content enters"),
    Column("strength", TEXT, True, "how hard the carrier pushes"),
    Column("kind", TEXT, True, "attack, or control: the authorised target in the carrier's place"),
)

MEASURES = (
    Column("effect", TEXT, True, "the protected action the reply performs; null when it performs none"),
    Column(
        "effect_status",
        TEXT,
        True,
        "authorised, violation, refused, unparseable (also: a target on which a deny-list is silent) or censored",
    ),
    *executor.COLUMNS,
    Column("target_margin", FLOAT, False, "log-probability of the authorised minus the unauthorised reply, nats"),
)
