"""`diff` and `gate`: what they are asked."""

from __future__ import annotations

import argparse

from analysis.compare.diff import show_diff
from analysis.compare.gate import REASONS, Asked, show_gate
from analysis.compare.sides import BY
from analysis.values import natural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What both are asked, and what each is."""
    is_gate = parser.prog.endswith("gate")
    parser.add_argument("--by", choices=BY, help="what makes two trials one question: cell, else model; or texts alone")
    json_help = "the same as --format json"
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", default=argparse.SUPPRESS, help=json_help
    )
    if is_gate:
        parser.add_argument(
            "--arm", action="append", default=[], help="an arm to hold to it (default: all that claim to roll back)"
        )
        reasons = ", ".join(REASONS)
        parser.add_argument("--allow", action="append", default=[], help=f"a reason that does not close: {reasons}")
        parser.add_argument("--against", metavar="STORE", help="a store of before: what is wrong there too is not new")
    else:
        parser.add_argument("a", metavar="A", help="a results folder")
        parser.add_argument("b", metavar="B", help="the other one")
        parser.add_argument("--rows", metavar="N", type=natural, default=10, help="trials that are shown (default: 10)")


def show(asked: argparse.Namespace) -> bool:
    """Print the answer; whether there is nothing wrong.

    Raises:
        AnalysisError: what is asked for is not there.
    """
    if asked.command == "diff":
        return show_diff(asked.a, asked.b, asked.by, asked.rows, asked.format)
    arms, allow = ([word for said in words for word in said.split(",")] for words in (asked.arm, asked.allow))
    return show_gate(asked.store, asked.format, Asked(arms, allow, asked.against, asked.by))
