"""`python -m analysis`: census, coverage, checks, sql, cost, report, seal, verify, diff, gate, more in `--help`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from analysis import compare, cost
from analysis.census import census_query, coverage_table, pooled, show_census
from analysis.errors import AnalysisError, nearest
from analysis.formats import FORMATS, joined, write
from analysis.report import write_report
from analysis.seal import NAME, seal_store, verify_store
from analysis.terminal import console, grid, neutral
from analysis.values import natural
from analysis.views import names, views
from analysis.warehouse import Warehouse, connect, existing, expanded, publish

COMMANDS = {
    "census": "flips, controls, agreement and isolation by model and arm",
    "coverage": "how much of each grid is there, and why the rest is not",
    "checks": "run every check; a row is a fault in the results (exit code 3)",
    "tables": "the views, each with its grain and the question it answers",
    "sql": "answer one query over the views",
    "query": "print one view",
    "cost": "what restores took, t(n) fitted to them, a transaction-local restore beside a global flush",
    "report": "write one HTML page: coverage, census, isolation and every flip beside its clean arms",
    "seal": "write <store>/seal.json: one root over the result; SHA-256 of plans, configurations and every part",
    "verify": "hold the store to its seal: which file, row and column differs (exit code 3 unless only bytes do)",
    "diff": "hold two stores together: which trials, effects and flips differ (exit code 3)",
    "gate": "hold the arms that claim to roll back to it: a flip, or what was not measured, is exit code 3",
    "publish": "write <store>/residue.duckdb for the duckdb shell",
}
OK, FAILED, UNHEALTHY = 0, 1, 3


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line with the nearest valid word."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting with a usage text."""
        wrong = re.match(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)", message, re.DOTALL)
        if wrong:
            options = [option.strip(" '") for option in wrong[3].split(",")]
            message = f"unknown {wrong[1].lstrip('-')} {wrong[2]!r}{nearest(wrong[2], options)}"
        if message.endswith("required: command"):
            message = f"name a command: {', '.join(COMMANDS)}"
        raise AnalysisError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.reconfigure(errors="backslashreplace")
        if sys.stdout is None:
            raise AnalysisError("standard output is closed: nothing can be answered")
        code = run(parser().parse_args(argv))
        sys.stdout.flush()
        return code
    except AnalysisError as error:
        return _failed(str(error))
    except BrokenPipeError:
        # The reader (`| head`) has seen enough.
        _discard_output()
        return OK
    except OSError as failure:
        _discard_output()
        return _failed(f"{failure.filename or 'cannot write the answer'}: {failure.strerror or failure}")


def _failed(message: str) -> int:
    if sys.stderr is not None:
        print(f"error: {neutral(message)}", file=sys.stderr)
    return FAILED


def _discard_output() -> None:
    """What Python still holds back must not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> Parser:
    """The command line; `--store` and `--format` may stand before or after the command."""
    root = Parser(prog="python -m analysis", description="SQL over the results of the audit.")
    root.add_argument("--store", default="results", help="the results folder (default: results)")
    root.add_argument("--format", default="table", choices=FORMATS)
    shared = Parser(add_help=False)
    shared.add_argument("--store", default=argparse.SUPPRESS, help="the results folder (default: results)")
    shared.add_argument("--format", default=argparse.SUPPRESS, choices=FORMATS)
    commands = root.add_subparsers(dest="command", metavar="command", required=True, parser_class=Parser)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose, parents=[shared])
        if name == "census":
            command.add_argument(
                "--where", metavar="SQL", help="rows of the view census, such as \"surface = 'langgraph'\""
            )
        if name == "sql":
            command.add_argument("query", help='one query, such as "from trials where is_flip"')
        if name == "query":
            command.add_argument("view", help="a view's name, see `tables`")
        if name == "cost":
            cost.add_arguments(command)
        if name == "verify":
            command.add_argument("--seal", metavar="FILE", help="the seal (default: seal.json in the store)")
            command.add_argument("--rows", metavar="N", type=natural, default=20, help="rows to name (default: 20)")
        if name in ("diff", "gate"):
            compare.add_arguments(command)
        if name == "report":
            command.add_argument("--out", metavar="FILE", help="where to (default: report.html in the store)")
    return root


def run(asked: argparse.Namespace) -> int:
    """Carry out one parsed command."""
    if asked.command in _ALONE:
        return _ALONE[asked.command](asked)
    with connect(asked.store) as warehouse:
        if asked.command == "checks":
            return _checks(warehouse, asked.format)
        if asked.command == "seal":
            print(seal_store(warehouse))
            return OK
        if asked.command == "report":
            path = expanded(asked.out) if asked.out else warehouse.root / "report.html"
            print(neutral(str(write_report(warehouse, path))))
            return OK
        if asked.format == "table" and asked.command == "census":
            show_census(warehouse, console(), asked.where)
        elif asked.format == "table" and asked.command == "coverage":
            console().print(coverage_table(warehouse, "coverage", ("grid", "model", "arm", "temperature")))
        else:
            _answer(warehouse, asked)
    return OK


def _answer(warehouse: Warehouse, asked: argparse.Namespace) -> None:
    """Write one answer; what must be known of a census and its cuts stands beside it, on standard error."""
    query = _query(asked)
    if query.startswith("from census") and sys.stderr is not None:
        for warning in pooled(warehouse):
            print(neutral(warning), file=sys.stderr)
    write(warehouse.sql(query), asked.format)


def _query(asked: argparse.Namespace) -> str:
    if asked.command == "sql":
        return str(asked.query)
    if asked.command == "census":
        return census_query(asked.where)
    view = asked.view if asked.command == "query" else asked.command
    if view not in names():
        raise AnalysisError(f"no view {view!r}{nearest(view, names())}")
    return f"from {view}"


def _tables(_: argparse.Namespace) -> int:
    order = {"marts": 0, "checks": 1, "staging": 2}
    found = sorted(views(), key=lambda view: (order[view.stage], view.name))
    lines = [[view.name, view.stage, view.question] for view in found]
    console().print(grid(["view", "stage", "grain and question"], lines, folded=[2]))
    return OK


def _publish(asked: argparse.Namespace) -> int:
    print(neutral(str(publish(asked.store))))
    return OK


def _cost(asked: argparse.Namespace) -> int:
    cost.show_cost(asked)
    return OK


def _verify(asked: argparse.Namespace) -> int:
    path = expanded(asked.seal).absolute() if asked.seal else existing(asked.store) / NAME
    return OK if verify_store(asked.store, path, asked.rows, asked.format) else UNHEALTHY


def _compare(asked: argparse.Namespace) -> int:
    return OK if compare.show(asked) else UNHEALTHY


def _checks(warehouse: Warehouse, form: str) -> int:
    """Print how many rows each check found, then the rows: as tables, or for a program as one document."""
    answers = {name: warehouse.sql(f"from {name}") for name in names("checks")}
    questions = {view.name: view.question for view in views()}
    out = console(sys.stdout if form == "table" else sys.stderr)
    lines = [[name, str(answer.num_rows), questions[name]] for name, answer in answers.items()]
    out.print(grid(["check", "rows", "what a row is, and the question"], lines, right=[1], folded=[2]))
    faults = {name: answer for name, answer in answers.items() if answer.num_rows}
    if form != "table":
        write(joined(faults, "check"), form)
    for name, answer in faults.items() if form == "table" else ():
        out.print(name, style="bold")
        write(answer, form)
    return UNHEALTHY if faults else OK


_ALONE = {
    "tables": _tables,
    "publish": _publish,
    "cost": _cost,
    "verify": _verify,
    "diff": _compare,
    "gate": _compare,
}
"""Commands that open their stores themselves, or none."""

if __name__ == "__main__":
    sys.exit(main())
