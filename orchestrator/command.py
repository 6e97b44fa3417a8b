"""`python -m orchestrator`: compose → freeze → grid → plan → schedule."""

from __future__ import annotations

import argparse
import shlex
import sys
import traceback
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from rich.text import Text

from analysis import warehouse
from analysis.errors import AnalysisError
from analysis.terminal import console
from orchestrator import config, doctor, ledger, preview, replay
from orchestrator.answers import Answers, published
from orchestrator.config import Composed
from orchestrator.progress import Progress, one_line
from orchestrator.run import Prepared, Result, carry_out, prepare, why_stale
from orchestrator.secrets import masked
from orchestrator.terminal import open_streams, plain, speaking
from orchestrator.tracking import make_tracker
from workers.errors import ConfigError, ResidueError
from workers.store import Store

COMPLETE, FAILED, INCOMPLETE, STOPPED = 0, 1, 3, 130

HELP = """\
  python -m orchestrator                          the default grid: 18 episodes × 6 arms on the embedded model
  python -m orchestrator +grid=census mode=plan   what would run, and why not
  python -m orchestrator model=[a,b] study.arms=[stale,cold] "where=strength == 'imperative'" limit=12
  python -m orchestrator mode=replay cell=1f3a…   compute one recorded trial once more: is it its row?
  python -m orchestrator mode=doctor              kill a run at every step on your machine, and see what is lost
  python -m orchestrator executor.address=auto    on the Ray cluster this machine belongs to

Everything in conf/config.yaml can be said as key=value. The same command again runs only what is missing.
Exit codes: 0 complete, 3 something is missing, in error or cannot run here, 1 the command failed, 130 stopped."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting with a usage text."""
        raise ConfigError(f"{message}; try --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    try:
        open_streams()
        return _carried_out(sys.argv[1:] if arguments is None else arguments)
    except (ResidueError, AnalysisError) as error:
        print(f"error: {plain(masked(str(error)))}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("stopped at once; what was committed stays, the same command goes on from there", file=sys.stderr)
        return STOPPED
    except Exception:
        print("\n".join(map(plain, masked(traceback.format_exc()).splitlines())), file=sys.stderr)
        print("this is a bug in Residue, not in your configuration", file=sys.stderr)
        return FAILED


def _carried_out(given: Sequence[str]) -> int:
    parser = Parser(prog="python -m orchestrator", epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="what to change in conf/config.yaml")
    parser.add_argument("--config-dir", type=Path, help="a folder like conf/, searched beside it")
    parser.add_argument("--quiet", action="store_true", help="print problems only")
    known, rest = parser.parse_known_args(given)
    composed = config.load([_as_text(word) for word in (*known.overrides, *rest)], known.config_dir)
    if (composed.run.mode == "replay") != (composed.run.cell is not None):
        raise ConfigError("mode=replay and cell=… go together: the id of a recorded cell, or its beginning")
    if composed.run.mode == "plan":
        return show_plan(composed)
    if composed.run.mode == "doctor":
        return COMPLETE if doctor.examine(composed) else INCOMPLETE
    if composed.run.mode == "replay":
        return replay_cell(composed, known.config_dir)
    return run(composed, ["python", "-m", "orchestrator", *given], is_quiet=known.quiet)


def _as_text(word: str) -> str:
    """An id stays text, also where Hydra would read the number that 12e4 is."""
    key, _, value = word.partition("=")
    return f"cell='{value}'" if key == "cell" and value.replace("/", "").isalnum() else word


def replay_cell(composed: Composed, config_dir: Path | None) -> int:
    """Compute one recorded trial once more and say whether it is its row."""
    assert composed.run.cell is not None
    store, line = Store(composed.run.store.root), ""
    for line in replay.replay(
        store, composed.study.name, composed.run.cell, lambda name: config.load([f"model={name}"], config_dir).models[0]
    ):
        print(line)
    return INCOMPLETE if line == "different" else COMPLETE


def show_plan(composed: Composed) -> int:
    """Print what would run and why the rest would not; write nothing."""
    prepared = prepare(composed)
    out = console()
    with speaking():
        stale = why_stale(prepared)
        preview.show(out, prepared, stale)
        for path in prepared.store.damaged():
            line = f"damaged: {plain(str(path))}; a run keeps it aside and records its trials again"
            out.print(Text(line), soft_wrap=True)
    return INCOMPLETE if prepared.blocked or prepared.unplanned else COMPLETE


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
        answers = published(prepared.store)
        is_complete = result.is_complete and answers.is_whole and not prepared.unplanned
        code = COMPLETE if is_complete else INCOMPLETE
        flips = {f"flips/{arm}": num for arm, num in answers.flips.items()}
        tracker.close(answers.census, flips, exit_code=code)
    if not is_quiet:
        with speaking():
            _say(prepared, result, answers, tracker.folder)
    return code


def _say(prepared: Prepared, result: Result, answers: Answers, tracker_folder: Path | None) -> None:
    total = result.statuses.total() + result.missing.total()
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items()))
    print(f"{result.num_run} trials run; {total} selected: {statuses or 'none recorded'}")
    for status, reason in sorted(answers.reasons.items()):
        if count := result.statuses[status]:
            hint = f" ({preview.RETRY})" if status == "error" else ""
            print(f"  {count} {status}{hint}, most often: {one_line(reason, 300)}")
    for reason, count in result.missing.most_common():
        print(f"  {count} missing: {plain(masked(reason))}")
    for model, reason in result.stopped.items():
        print(f"  {plain(model)} was stopped: {one_line(reason, 300)}")
    for line in preview.unplanned(prepared):
        print(f"  {line}")
    if not answers.is_whole:
        print("  a damaged part was set aside: the same command runs its trials again")
    flips = ", ".join(f"{plain(arm)} {num}" for arm, num in sorted(answers.flips.items()) if num)
    unjudged = "not judged: no attack has a competent cold trial beside it"
    print(f"flips in the latest plans: {flips or ('none' if answers.num_judged else unjudged)}")
    print(_where_to_look(prepared.store.root))
    if tracker_folder is not None:
        print(f"wandb: {plain(str(tracker_folder))}")


def _where_to_look(root: Path) -> str:
    """The store, and commands that can be pasted."""
    store = "" if root == Path("results").absolute() else f"--store {shlex.quote(str(root))} "
    shell = shlex.quote(str(root / warehouse.PUBLISHED))
    return plain(f"store: {root}  (python -m analysis {store}census; duckdb {shell})")
