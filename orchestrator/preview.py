"""`mode=plan`: what would run, what is there, what cannot run or is left out and why, what is stale. Runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.plan import Planned, State, of_models, of_parts
from orchestrator.run import Prepared
from orchestrator.terminal import plain
from orchestrator.tokens import CHARACTERS_A_TOKEN, estimate

RETRY = "retry=error runs them again"


def show(console: Console, prepared: Prepared, stale: Counter[str]) -> None:
    """Print the plan by model and by part, the reasons, and what it comes to."""
    console.print(_models(prepared))
    if prepared.composed.run.parts:
        console.print(_parts(prepared))
    for line in (*_left_out(prepared), *_reasons(prepared, stale), *_sum(prepared)):
        console.print(Text(line), soft_wrap=True)


def _models(prepared: Prepared) -> Table:
    present = {entry.state for entry in prepared.planned}
    # A state that no trial is in would only take space, of which eighty columns have little.
    shown = [state for state in State if state in present or state is State.RUN]
    table = _table(f"grid {plain(prepared.composed.run.name)}", ("model", "episodes", "arms", "planned", *shown))
    for model, entries in of_models(prepared.planned).items():
        states = Counter(entry.state for entry in entries)
        table.add_row(plain(model), *_sizes(entries), str(len(entries)), *(str(states[state]) for state in shown))
    return table


def _parts(prepared: Prepared) -> Table:
    """What each part asks for; a cell of several parts is counted in each."""
    table = _table(
        "parts; what several of them ask for runs once",
        ("part", "models", "episodes", "arms", "cells", "trials", "prefill"),
    )
    found = of_parts(prepared.planned)
    for part in prepared.composed.run.parts:
        entries = found.get(part, [])
        table.add_row(
            plain(part),
            str(len({entry.cell.model for entry in entries})),
            *_sizes(entries),
            str(len({entry.cell.cell_id for entry in entries})),
            str(len(entries)),
            _short(estimate(entries, prepared.specs).prefill),
        )
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        # A number that is cut short is a wrong number: where space is short, the names take several lines.
        is_name = heading in ("model", "part")
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    return table


def _sizes(entries: Sequence[Planned]) -> tuple[str, str]:
    """Their episodes and arms, counted."""
    return str(len({entry.cell.episode_id for entry in entries})), str(len({entry.cell.arm for entry in entries}))


def _left_out(prepared: Prepared) -> Iterator[str]:
    """What is no trial of this grid, and why."""
    for part, why, num_cells in prepared.excluded:
        yield f"excluded: {_of_part(part)}{num_cells} cells: {plain(why)}"
    told = set()
    for part, run in [("", prepared.composed.run), *((part.name, part.run) for part in prepared.composed.parts)]:
        for one in run.not_run:
            if one not in told:
                yield f"not run: {_of_part(part)}{plain(one.what)}: {plain(one.why)}"
                told.add(one)


def _of_part(part: str) -> str:
    return f"{plain(part)}: " if part else ""


def unplanned(prepared: Prepared) -> Iterator[str]:
    """A line for each part whose cells cannot be told here."""
    for part, why in prepared.unplanned:
        yield f"cannot be planned: {_of_part(part)}{plain(why)}"


def _reasons(prepared: Prepared, stale: Counter[str]) -> Iterator[str]:
    yield from unplanned(prepared)
    for model, reason in prepared.blocked.items():
        yield f"cannot run: {plain(model)}: {plain(reason)}"
    for reason, count in stale.most_common():
        yield f"stale: {count} cells have results that no longer apply: {plain(reason)}"


def _sum(prepared: Prepared) -> Iterator[str]:
    states = Counter(entry.state for entry in prepared.planned)
    counts = ", ".join(f"{states[state]} {state}" for state in State if states[state])
    yield f"{len(prepared.planned)} trials planned: {counts}"
    if prepared.num_errors:
        yield f"{prepared.num_errors} of those recorded are errors: {RETRY}"
    if work := [_tokens(prepared, state) for state in (State.RUN, State.BLOCKED) if states[state]]:
        how = f"{CHARACTERS_A_TOKEN:g} characters each, every trial by itself"
        yield f"tokens to process, about ({how}): {'; '.join(work)}"


def _tokens(prepared: Prepared, state: State) -> str:
    tokens = estimate((entry for entry in prepared.planned if entry.state is state), prepared.specs)
    return f"{state} {_short(tokens.prefill)} to prefill and at most {_short(tokens.decode)} to decode"


def _short(number: int) -> str:
    """Three digits and a unit: more would claim more than is known."""
    for size, unit in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)
