"""`mode=plan`: what would run, what is there, what cannot run or is left out and why, what is stale. Runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.plan import Plan, State, by_model
from orchestrator.rows import Rows
from orchestrator.run import Prepared
from orchestrator.terminal import plain
from orchestrator.tokens import CHARACTERS_A_TOKEN, Estimate

RETRY = "retry=error runs them again"


def show(console: Console, prepared: Prepared, stale: Counter[str]) -> None:
    """Print the plan by model and by part, the reasons, and what it comes to."""
    estimate = Estimate(prepared.planned.cells, prepared.specs)
    console.print(_models(prepared))
    if prepared.composed.run.parts:
        console.print(_parts(prepared, estimate))
    for line in (*_left_out(prepared), *_reasons(prepared, stale), *_sum(prepared, estimate)):
        console.print(Text(line), soft_wrap=True)


def _models(prepared: Prepared) -> Table:
    planned, rows = prepared.planned, prepared.planned.cells.rows
    everything = rows.num_draws > 0
    states = _states(planned)
    # A state that no trial is in would only take space, of which eighty columns have little.
    shown = [state for state in State if states[state] or state is State.RUN]
    table = _table(f"grid {plain(prepared.composed.run.name)}", ("model", "episodes", "arms", "planned", *shown))
    for model, counts in by_model(planned, everything).items():
        is_its = planned.cells.model == rows.episodes.models.index(model)
        table.add_row(
            plain(model), *_sizes(rows.take(is_its)), str(counts.total()), *(str(counts[state]) for state in shown)
        )
    return table


def _states(planned: Plan) -> Counter[State]:
    return Counter({state: int(planned.is_in(state).sum()) for state in State})


def _parts(prepared: Prepared, estimate: Estimate) -> Table:
    """What each part asks for; a cell of several parts is counted in each."""
    table = _table(
        "parts; what several of them ask for runs once",
        ("part", "models", "episodes", "arms", "cells", "trials", "prefill"),
    )
    cells = prepared.planned.cells
    for part in prepared.composed.run.parts:
        is_its = cells.rows.asked_by(part)
        num_draws = cells.rows.num_draws * is_its
        table.add_row(
            plain(part),
            str(len(set(cells.model[is_its].tolist()))),
            *_sizes(cells.rows.take(is_its)),
            str(is_its.sum()),
            str(num_draws.sum()),
            _short(estimate.of(num_draws).prefill),
        )
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        # A number that is cut short is a wrong number: where space is short, the names take several lines.
        is_name = heading in ("model", "part")
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    return table


def _sizes(rows: Rows) -> tuple[str, str]:
    """Their episodes and arms, counted."""
    arms = {rows.treatments[at].arm for at in set(rows.treatment.tolist())}
    return str(len(set(rows.episode.tolist()))), str(len(arms))


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


def _sum(prepared: Prepared, estimate: Estimate) -> Iterator[str]:
    states = _states(prepared.planned)
    counts = ", ".join(f"{states[state]} {state}" for state in State if states[state])
    yield f"{len(prepared.planned)} trials planned: {counts}"
    if prepared.num_errors:
        yield f"{prepared.num_errors} of those recorded are errors: {RETRY}"
    if work := [_tokens(prepared.planned, estimate, state) for state in (State.RUN, State.BLOCKED) if states[state]]:
        how = f"{CHARACTERS_A_TOKEN:g} characters each, every trial by itself"
        yield f"tokens to process, about ({how}): {'; '.join(work)}"


def _tokens(planned: Plan, estimate: Estimate, state: State) -> str:
    tokens = estimate.of(planned.per_cell(planned.is_in(state)))
    return f"{state} {_short(tokens.prefill)} to prefill and at most {_short(tokens.decode)} to decode"


def _short(number: int) -> str:
    """Three digits and a unit: more would claim more than is known."""
    for size, unit in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)
