"""`python -m benchmarks`: every script, each at a size that two cores can do, as one Markdown text.

Exit code: the worst of the scripts' (1 cannot be measured or sides differ, 3 a goal is missed on this machine).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Script:
    """One figure: a heading, a module of this package, and its arguments."""

    title: str
    module: str
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """As it is typed."""
        return " ".join(["python -m", f"benchmarks.{self.module}", *self.arguments])


SCRIPTS = (
    Script("The default grid beside the per-arm loop", "throughput"),
    Script(
        "Effects × policies beside the per-arm loop", "throughput", ("--grid", "effects", "--sample", "4", "limit=320")
    ),
    Script("Orchestration", "overhead", ("limit=480",)),
    Script("From the command to the first row", "startup", ("--rounds", "1")),
    Script("Slots and threads", "slots", ("--rounds", "1", "limit=640", "block_episodes=40")),
    Script("Planning", "plan", ("--rounds", "1")),
    Script("Rewinding a cache", "rewind", ("--lengths", "64,256,512", "--rounds", "1")),
)


def main(scripts: Sequence[Script] = SCRIPTS) -> int:
    """Run them one after the other; what they print, under their headings."""
    worst = measure.FINE
    for script in scripts:
        print(f"… {script.command}", file=sys.stderr)
        start = time.perf_counter()
        words = [sys.executable, "-m", f"benchmarks.{script.module}", *script.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        print(f"### {script.title}\n\n`{script.command}` ({time.perf_counter() - start:.0f} s)\n\n{done.stdout}")
        sys.stdout.flush()
        if done.returncode:
            print(f"exit code {done.returncode}: {_MEANING.get(done.returncode, 'it failed')}\n")
        # Sides that differ are worse than a missed goal.
        worst = done.returncode if worst in (measure.FINE, measure.SHORT) and done.returncode else worst
    return worst


_MEANING = {measure.FAILED: "not measured, or sides differ that must not", measure.SHORT: "a goal is missed here"}


if __name__ == "__main__":
    sys.exit(main())
