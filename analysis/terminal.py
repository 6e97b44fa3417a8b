"""The door to rich: tables that a terminal, a pipe and a hostile reply can all live with."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.values import rows_of, said

if TYPE_CHECKING:
    import pyarrow as pa

PIPE_WIDTH, LEAST_WIDTH = 120, 100
CELL_WIDTH, GAP = 48, 2
MAX_ROWS = 200
NOTHING = "–"
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that move the cursor, reorder text or cannot be seen."""


def neutral(text: str) -> str:
    r"""Text with every control, invisible or bidirectional character written out, as `\x1b`."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in HIDDEN else char for char in text
    )


class Out(Console):
    """A console that leaves it to the command what a closed pipe means; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raise what rich has just caught."""
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """A console as wide as the terminal, and of a fixed width where there is none.

    Never narrower than the census needs: a number that is cut short is a wrong number.
    """
    stream = stream or sys.stdout
    out = Out(file=stream, highlight=False, markup=False, emoji=False)
    out.width = max(out.width, LEAST_WIDTH) if stream.isatty() else PIPE_WIDTH
    return out


def show(answer: pa.Table, out: Console) -> None:
    """Print an answer: as a table where its columns fit, else one record below the other."""
    shown = answer.slice(0, MAX_ROWS)
    rows = [[plain(value) for value in row] for row in rows_of(shown)]
    header = [neutral(name) for name in answer.column_names]
    if _natural_width(header, rows) <= out.width:
        out.print(grid(header, rows))
    else:
        _show_records(header, rows, out)
    hidden = answer.num_rows - shown.num_rows
    note = f" ({hidden} more; --format csv prints all)" if hidden else ""
    out.print(Text(f"{number(answer.num_rows, 'row')}{note}"), style="dim")


def plain(value: Any) -> str:
    """A value as one line of harmless text."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.6g}"
    return neutral(said(value))


def number(count: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def share(k: int, n: int) -> str:
    """`k/n`, or a dash where there is nothing to count: 0/0 is no observation."""
    return f"{k}/{n}" if n else NOTHING


def grid(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    right: Iterable[int] = (),
    elided: Iterable[int] = (),
    folded: Iterable[int] = (),
) -> Table:
    """A table whose cells stay on one line.

    Args:
        right: positions of the columns set flush right.
        elided: positions of the columns that are cut short first where space is short.
        folded: positions of the columns of prose, which may take several lines.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.title, table.title_justify, table.title_style = title and Text(title), "left", "bold"
    right, elided, folded = set(right), set(elided), set(folded)
    for place, name in enumerate(header):
        table.add_column(
            Text(name),
            justify="right" if place in right else "left",
            no_wrap=place not in folded | elided,
            overflow="fold" if place in folded else "ellipsis",
            max_width=None if place in folded else CELL_WIDTH,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _natural_width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = (max(cell_len(row[place]) for row in (header, *rows)) for place in range(len(header)))
    return sum(min(width, CELL_WIDTH) + GAP for width in widths)


def _show_records(header: Sequence[str], rows: Sequence[Sequence[str]], out: Console) -> None:
    label = max(map(cell_len, header))
    for number, row in enumerate(rows, start=1):
        out.print(Text(f"row {number}"), style="bold")
        for name, cell in zip(header, row, strict=True):
            line = Text(f"  {name}{' ' * (label - cell_len(name))}  {cell}")
            out.print(line, no_wrap=True, overflow="ellipsis")
