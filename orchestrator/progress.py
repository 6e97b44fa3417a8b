"""The run, told to the terminal: a live display, plain lines where nobody watches, or only problems."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.secrets import masked
from orchestrator.terminal import plain
from orchestrator.tracking.tally import PROBLEMS, Tally

if TYPE_CHECKING:
    from orchestrator.listener import Start
    from workers.block import Receipt

P = ParamSpec("P")
LINE_EVERY_S = 5.0

Method = Callable[Concatenate["Progress", P], None]


def _never_fails(method: Method[P]) -> Method[P]:
    """A terminal that went away must not end the run; rich leaves by SystemExit when a pipe breaks."""

    @wraps(method)
    def guarded(self: Progress, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with suppress(Exception, SystemExit):
            method(self, *args, **kwargs)

    return guarded


class Progress:
    """Tells one run. A context manager, so that the terminal is whole again whatever happens.

    Args:
        console: where to write; a live display if it is a terminal and no debugger holds this process.
        is_quiet: say nothing but problems, to `problems` (standard error).
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        is_quiet: bool = False,
        problems: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        shown = console or Console()
        self._console = (problems or Console(stderr=True)) if is_quiet else shown
        self._is_quiet = is_quiet
        is_screen = shown.is_terminal and not shown.is_dumb_terminal and sys.gettrace() is None
        self._is_live = is_screen and not is_quiet
        self._live: Live | None = None
        self._tally = Tally(clock)
        self._said_at, self._said_tenth = clock(), 0
        self._kinds: set[tuple[str, str]] = set()
        self._num_unsaid = 0

    @_never_fails
    def started(self, start: Start) -> None:
        """Print the header and, on a terminal, open the display."""
        self._tally.start(start)
        self._said_at = self._tally.begun
        if self._is_quiet:
            return
        self._say(f"run {start.run_id} · grid {start.grid} · store {start.store} · {start.executor}")
        for model in self._tally.models:
            self._say(_plan_line(start, model))
        if self._is_live and self._tally.num_to_run:
            self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=4)
            self._live.start()

    @_never_fails
    def slot_ready(self, model: str, device: str, load_s: float) -> None:
        """Count the slot."""
        self._tally.slot_ready(model, load_s)
        if not self._is_live and not self._is_quiet:
            self._say(f"{model}: ready on {device} after {duration(load_s)}")

    @_never_fails
    def block_done(self, receipt: Receipt) -> None:
        """Count the block, print the first reason of its kind, and a line when one is due."""
        if not self._tally.add(receipt):
            return
        for status, reason in receipt.reasons.items():
            self._first(receipt.model, reason if status == "error" else f"{status}: {reason}")
        tally = self._tally
        tenth = 10 * tally.num_done // max(1, tally.num_to_run)
        # Every five seconds at first, later every fiftieth of the time so far: a day's log stays readable.
        is_due = tally.clock() - self._said_at >= max(LINE_EVERY_S, tally.elapsed_s / 50)
        if not self._is_live and not self._is_quiet and (is_due or tenth > self._said_tenth):
            self._said_at, self._said_tenth = tally.clock(), tenth
            self._say(f"{tally.num_done}/{tally.num_to_run} trials · {' · '.join(_numbers(tally))}")

    @_never_fails
    def problem(self, model: str, message: str) -> None:
        """Print the first problem of its kind."""
        self._first(model, message)

    @_never_fails
    def finished(self, missing: dict[str, str]) -> None:
        """Close the display, say what was done and what is missing."""
        self.close()
        for model, reason in missing.items():
            self._say(f"{model}: missing: {reason}", "yellow")
        if self._num_unsaid:
            self._say(f"{self._num_unsaid} more problems like those above", "yellow")
        if not self._is_quiet:
            self._say(_closing_line(self._tally))

    @_never_fails
    def note(self, message: str) -> None:
        """One line of anyone else's, above the display; also when quiet."""
        self._say(message, "yellow")

    def close(self) -> None:
        """Give the terminal back."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shut()

    @_never_fails
    def _shut(self) -> None:
        self.close()

    def _first(self, model: str, message: str) -> None:
        kind = (model, re.sub(r"\d+", "0", message.partition(":")[0]))
        if kind in self._kinds:
            self._num_unsaid += 1
            return
        self._kinds.add(kind)
        self._say(f"{model}: {message}", "red")

    def _say(self, message: str, style: str = "") -> None:
        self._console.print(Text(self._writable(one_line(message)), style=style), soft_wrap=True)

    def _writable(self, text: str) -> str:
        return text.encode(self._console.encoding, "backslashreplace").decode(self._console.encoding)

    def _draw(self) -> RenderableType:
        try:
            numbers = Text(" · ".join(_numbers(self._tally)))
            return Group(_bars(self._tally, max(3, self._console.height - 6)), numbers)
        except Exception:  # drawn by rich's thread while the driver's counts: the next frame will do
            return Text("")


def one_line(text: str, limit: int = 500) -> str:
    """Hostile text as one harmless line without secrets."""
    safe = plain(masked(" ".join(text[: 4 * limit].split())))
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def duration(seconds: float) -> str:
    """A time as people say it, in at most two units."""
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"


def _plan_line(start: Start, model: str) -> str:
    counts = f"{start.planned[model]} planned, {start.recorded.get(model, 0)} recorded"
    if model in start.blocked:
        return f"{model}: {counts}, cannot run: {start.blocked[model]}"
    slots = f" · {start.slots[model]}" if model in start.slots and start.to_run.get(model) else ""
    return f"{model}: {counts}, {start.to_run.get(model, 0)} to run{slots}"


def _closing_line(tally: Tally) -> str:
    recorded, planned = sum(map(tally.recorded, tally.models)), sum(tally.planned.values())
    ran = f"{tally.num_done} trials run in {duration(tally.elapsed_s)}"
    return " · ".join([f"{recorded} of {planned} recorded", ran, *_counts(tally)])


def _numbers(tally: Tally) -> list[str]:
    rate, eta_s, num_slots = tally.per_minute, tally.eta_s, tally.num_slots
    return [
        *([f"{rate:.1f}/min"] if rate is not None else []),
        *([f"ETA {duration(eta_s)}"] if eta_s is not None else []),
        f"{num_slots} slot{'s' * (num_slots != 1)} ready",
        *_counts(tally),
    ]


def _counts(tally: Tally) -> list[str]:
    flips = ", ".join(f"{one_line(arm)} {num}" for arm, num in sorted(tally.flips.items()) if num)
    problems = ", ".join(f"{tally.statuses[status]} {status}" for status in PROBLEMS)
    # A block that resumes half an episode has no reference trial beside it: only SQL knows all flips.
    seen = flips or ("none" if tally.has_judged else "not judged")
    return [f"flips in this run: {seen}", problems]


def _bars(tally: Tally, room: int) -> RenderableType:
    """A row a model, those at work first; what the screen has no room for is one line."""
    models = sorted(tally.models, key=lambda model: (not tally.is_at_work(model), not tally.left(model)))
    table = Table.grid(padding=(0, 2))
    for model in models[:room]:
        done, planned = tally.recorded(model), tally.planned[model]
        bar = ProgressBar(total=max(1, planned), completed=done, width=30)
        table.add_row(Text(one_line(model, 40)), bar, Text(f"{done}/{planned}"))
    more = [Text(f"and {len(models) - room} models more")] if len(models) > room else []
    return Group(table, *more)
