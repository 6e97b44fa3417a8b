"""What the store answers when a run has ended: the views published, census, flips, why trials have no result."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis import warehouse
from analysis.errors import DamagedPart
from orchestrator import ledger
from orchestrator.terminal import plain
from workers.errors import StoreError

if TYPE_CHECKING:
    from workers.store import Store


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one store, over the latest plan of each of its grids.

    Attributes:
        census: its columns and its rows.
        flips: arm → flips.
        num_judged: trials that had a reference trial to be judged by.
        reasons: status → the commonest reason of the trials that have it; none for `done`.
        is_whole: false where publishing met a damaged part, whose trials are missing now.
    """

    census: tuple[list[str], list[list[Any]]]
    flips: dict[str, int]
    num_judged: int
    reasons: dict[str, str]
    is_whole: bool


def published(store: Store) -> Answers:
    """Publish the views and ask them; a part that only DuckDB finds damaged is set aside, and said so.

    Raises:
        StoreError: the store is gone, or cannot be written.
        AnalysisError: DuckDB cannot read it for another reason.
    """
    is_whole = True
    while True:
        if not store.runs.is_dir():
            raise StoreError(f"the store {store.root} was removed while the run went on: run the same command again")
        try:
            return _asked(store, is_whole)
        except DamagedPart as damage:
            is_whole = False
            print("\n".join(map(plain, ledger.keep_aside(store, [damage.path]))), file=sys.stderr)


def _asked(store: Store, is_whole: bool) -> Answers:
    warehouse.publish(store.root)
    with warehouse.connect(store.root) as house:
        census = house.sql("from census")
        arms = house.sql(
            "select arm, count(*) filter (is_flip) as flips, count(is_flip) as judged from trials group by arm"
        ).to_pylist()
        reasons = house.sql(
            "select status, mode(error) as reason from trials where status <> 'done' and error <> '' group by status"
        ).to_pylist()
    return Answers(
        census=(census.column_names, [list(row.values()) for row in census.to_pylist()]),
        flips={row["arm"]: row["flips"] for row in arms},
        num_judged=sum(row["judged"] for row in arms),
        reasons={row["status"]: row["reason"] for row in reasons},
        is_whole=is_whole,
    )
