"""`mode=plan`: what would run, what is there, what cannot run and why, what is stale and why. Runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.plan import Planned, State, by_model
from orchestrator.terminal import plain

RETRY = "retry=error runs them again"


def show(
    console: Console,
    name: str,
    planned: list[Planned],
    stale: Counter[str],
    blocked: Mapping[str, str],
    num_errors: int = 0,
) -> None:
    """Print the plan by model, the reasons, and one line of sum.

    Args:
        num_errors: trials among those recorded that are errors.
    """
    console.print(_table(name, planned))
    for model, reason in blocked.items():
        console.print(Text(f"cannot run: {plain(model)}: {plain(reason)}"), soft_wrap=True)
    for reason, count in stale.most_common():
        console.print(Text(f"stale: {count} cells have results that no longer apply: {plain(reason)}"), soft_wrap=True)
    total = sum(by_model(planned).values(), Counter())
    parts = ", ".join(f"{total[state]} {state}" for state in State if total[state])
    console.print(Text(f"{len(planned)} trials planned: {parts}"), soft_wrap=True)
    if num_errors:
        console.print(Text(f"{num_errors} of those recorded are errors: {RETRY}"), soft_wrap=True)


def _table(name: str, planned: list[Planned]) -> Table:
    table = Table(title=f"grid {plain(name)}", title_justify="left")
    for heading in ("model", "episodes", "arms", "planned", *State):
        # A number that is cut short is a wrong number: where space is short, the names take several lines.
        is_name = heading == "model"
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for model, counts in by_model(planned).items():
        mine = [entry.cell for entry in planned if entry.cell.model == model]
        table.add_row(
            plain(model),
            str(len({cell.episode_id for cell in mine})),
            str(len({cell.arm for cell in mine})),
            str(counts.total()),
            *(str(counts[state]) for state in State),
        )
    return table
