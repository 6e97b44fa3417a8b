"""`python -m orchestrator`: compose → freeze → grid → plan → schedule."""

from __future__ import annotations

import argparse
import sys
import traceback
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from analysis import warehouse
from analysis.errors import AnalysisError
from orchestrator import config, ledger, preview
from orchestrator.config import Composed
from orchestrator.progress import Progress
from orchestrator.run import Prepared, Result, carry_out, prepare, why_stale
from orchestrator.terminal import plain
from orchestrator.tracking import make_tracker
from workers.errors import ResidueError

COMPLETE, FAILED, INCOMPLETE, STOPPED = 0, 1, 3, 130

HELP = """\
  python -m orchestrator                          the default grid: 18 episodes × 6 arms on the embedded model
  python -m orchestrator +grid=census mode=plan   what would run, and why not
  python -m orchestrator model=[a,b] study.arms=[stale,cold] "where=strength == 'imperative'" limit=12
  python -m orchestrator executor.address=auto    on the Ray cluster this machine belongs to

Everything in conf/config.yaml can be said as key=value. The same command again runs only what is missing.
Exit codes: 0 complete, 3 something is missing, in error or cannot run here, 1 the command failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m orchestrator", epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="what to change in conf/config.yaml")
    parser.add_argument("--config-dir", type=Path, help="a folder like conf/, searched beside it")
    parser.add_argument("--quiet", action="store_true", help="print problems only")
    known, rest = parser.parse_known_args(given)
    try:
        composed = config.load([*known.overrides, *rest], known.config_dir)
        if composed.run.mode == "plan":
            return show_plan(composed)
        return run(composed, ["python", "-m", "orchestrator", *given], is_quiet=known.quiet)
    except (ResidueError, AnalysisError) as error:
        print(f"error: {plain(str(error))}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("stopped at once; what was committed stays, the same command goes on from there", file=sys.stderr)
        return STOPPED
    except Exception:
        traceback.print_exc()
        print("this is a bug in Residue, not in your configuration", file=sys.stderr)
        return FAILED


def show_plan(composed: Composed) -> int:
    """Print what would run and why the rest would not; write nothing."""
    prepared = prepare(composed)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    preview.show(console, composed.run.name, prepared.planned, why_stale(prepared), prepared.blocked)
    for path in prepared.store.damaged():
        console.print(Text(f"damaged: {path}; a run keeps it aside and records its trials again"), soft_wrap=True)
    return INCOMPLETE if prepared.blocked else COMPLETE


def run(composed: Composed, command: list[str], *, is_quiet: bool) -> int:
    """Run what is missing, publish the views, say what came of it."""
    prepared = prepare(composed)
    ledger.check_writable(prepared.store)
    if lines := ledger.set_damaged_aside(prepared.store):
        print("\n".join(map(plain, lines)), file=sys.stderr)
        prepared = prepare(composed)
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    with (
        make_tracker(composed.run.tracking, ledger.snapshot(composed)) as tracker,
        Progress(is_quiet=is_quiet) as progress,
    ):
        result = carry_out(prepared, run_id, command, [progress, tracker])
        tracker.close(*_answers(prepared.store.root), exit_code=COMPLETE if result.is_complete else INCOMPLETE)
    if not is_quiet:
        _say(prepared, result, tracker.folder)
    return COMPLETE if result.is_complete else INCOMPLETE


def _answers(root: Path) -> tuple[tuple[list[str], list[list[Any]]], dict[str, int]]:
    """Publish the views; the census and the flips of each arm, from SQL."""
    warehouse.publish(root)
    with warehouse.connect(root) as answers:
        census = answers.sql("select * from census")
        flips = answers.sql("select arm, count(*) filter (is_flip) as flips from trials group by arm").to_pylist()
    rows = [list(row.values()) for row in census.to_pylist()]
    return (census.column_names, rows), {f"flips/{row['arm']}": row["flips"] for row in flips}


def _say(prepared: Prepared, result: Result, tracker_folder: Path | None) -> None:
    total = result.statuses.total() + result.missing.total()
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items()))
    print(f"{result.num_run} trials run; {total} selected: {statuses or 'none recorded'}")
    for reason, count in result.missing.most_common():
        print(f"  {count} missing: {plain(reason)}")
    print(f"store: {prepared.store.root}  (python -m analysis census; duckdb {prepared.store.root}/residue.duckdb)")
    if tracker_folder is not None:
        print(f"wandb: {tracker_folder}")


if __name__ == "__main__":
    sys.exit(main())
