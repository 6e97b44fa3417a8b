"""The terminal is told how a run goes: right numbers, at a bearable rate, and nothing hostile."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.listener import Start
from orchestrator.progress import Progress, duration, one_line
from workers.block import Receipt

ROOT = Path(__file__).parents[2]
HOSTILE = "Boom: \x1b[31m\x1b]0;owned\x07 [bold]x[/bold] [/nope] :smile: \r\n\x9b2J ‮abc \udc80 end"


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def console(*, is_terminal: bool = False, **options) -> Console:
    options = {"width": 100, "height": 20, "color_system": None} | options
    return Console(file=io.StringIO(), force_terminal=is_terminal, legacy_windows=False, _environ={}, **options)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def start(to_run: dict[str, int], recorded: dict[str, int] | None = None, **blocked: str) -> Start:
    recorded = recorded or {}
    planned = {model: num + recorded.get(model, 0) for model, num in to_run.items()} | dict.fromkeys(blocked, 6)
    return Start("run-7", "default", "/store", "ray: 2 slots", planned, recorded, to_run, blocked)


def receipt(block: str, model: str = "m", num: int = 10, wall_s: float = 10.0, **more) -> Receipt:
    fields = {"statuses": {"done": num}, "flips": {}, "reasons": {}, "is_first": True} | more
    return Receipt(block=block, model=model, num_trials=num, wall_s=wall_s, **fields)


def test_plain_lines_tell_plan_course_and_end() -> None:
    """inspect-action#190: what has not started is a part of the progress."""
    shown, clock = console(), Clock()
    told = Progress(shown, clock=clock)
    told.started(start({"m": 20}, {"m": 4}, big="no weights at hub:x/y"))
    told.slot_ready("m", "cpu", 3.2)
    clock.now += 13.2
    told.block_done(receipt("a", flips={"stale": 2, "fresh": 0}))
    clock.now += 10
    told.block_done(receipt("b", flips={"stale": 1}, statuses={"done": 8, "invalid": 2}))
    told.finished({"big": "no weights"})
    assert text(shown).splitlines() == [
        "run run-7 · grid default · store /store · ray: 2 slots",
        "m: 24 planned, 4 recorded, 20 to run",
        "big: 6 planned, 0 recorded, cannot run: no weights at hub:x/y",
        "m: ready on cpu after 3 s",
        (
            "10/20 trials · 45.5/min · ETA 10 s · 1 slot ready"
            " · flips in this run: stale 2 · 0 error, 0 invalid, 0 unsupported"
        ),
        (
            "20/20 trials · 51.7/min · ETA 0 s · 0 slots ready"
            " · flips in this run: stale 3 · 0 error, 2 invalid, 0 unsupported"
        ),
        "big: missing: no weights",
        "24 of 30 recorded · 20 trials run in 23 s · flips in this run: stale 3 · 0 error, 2 invalid, 0 unsupported",
    ]


def test_plain_lines_come_at_most_every_five_seconds_or_tenth() -> None:
    shown, clock = console(), Clock()
    told = Progress(shown, clock=clock)
    told.started(start({"m": 1000}))
    for num in range(1000):
        told.block_done(receipt(str(num), num=1, wall_s=0.001))
        clock.now += 0.001
    assert text(shown).count(" trials ·") == 10
    for num in range(1000):
        told.block_done(receipt(f"b{num}", num=0))
        clock.now += 1
    assert 100 < text(shown).count(" trials ·") - 10 < 200
    for num in range(20_000):
        told.block_done(receipt(f"c{num}", num=0))
        clock.now += 1
    assert text(shown).count(" trials ·") < 400


def test_a_quiet_run_tells_problems_only() -> None:
    shown, problems = console(), console()
    with Progress(shown, is_quiet=True, problems=problems) as told:
        told.started(start({"m": 20}))
        told.slot_ready("m", "cpu", 1)
        told.block_done(receipt("a"))
        told.block_done(receipt("b", reasons={"error": "ValueError: bad"}))
        told.problem("m", "slot lost")
        told.note("wandb: lost")
        told.finished({"m": "over budget"})
    assert text(shown) == ""
    assert text(problems).splitlines() == [
        "m: ValueError: bad",
        "m: slot lost",
        "wandb: lost",
        "m: missing: over budget",
    ]


def test_the_first_of_a_kind_is_told_and_the_rest_counted() -> None:
    """hydra#2284: an exception in a sweep was told to nobody."""
    shown = console()
    told = Progress(shown)
    told.started(start({"m": 90, "n": 90}))
    for num in range(5):
        told.block_done(receipt(f"m{num}", reasons={"error": f"ValueError: at {num}"}))
        told.problem("m", f"slot {num}: lost")
    told.block_done(receipt("n", model="n", reasons={"error": "ValueError: elsewhere"}))
    told.finished({})
    said = text(shown)
    assert [said.count(part) for part in ("ValueError: at", "ValueError: elsewhere", "slot 0: lost", ": lost")] == [
        1
    ] * 4
    assert "8 more problems like those above" in said


def test_why_a_trial_is_no_answer_is_told_and_flips_without_a_reference_are_not_judged() -> None:
    shown = console()
    told = Progress(shown)
    told.started(start({"m": 20}))
    why = {"invalid": "template_refused: no system role", "unsupported": "cannot be cropped"}
    told.block_done(receipt("a", statuses={"invalid": 5, "unsupported": 5}, flips=None, reasons=why))
    told.finished({})
    said = text(shown)
    assert "m: invalid: template_refused: no system role" in said
    assert "m: unsupported: cannot be cropped" in said
    assert "flips in this run: not judged" in said


@pytest.mark.parametrize("is_terminal", [False, True])
def test_hostile_text_is_spelled_out(is_terminal: bool) -> None:
    shown = console(is_terminal=is_terminal)
    harmless = console(is_terminal=is_terminal)
    for where, what in ((shown, HOSTILE), (harmless, "x")):
        with Progress(where, clock=Clock()) as told:
            told.started(Start(what, what, what, what, {what: 2}, {}, {what: 2}, {what: what}))
            told.slot_ready(what, what, 1)
            told.block_done(receipt("a", model=what, num=1, reasons={"error": what}, flips={what: 1}))
            told.problem(what, what)
            told.finished({what: what})
    assert "\\x1b[31m\\x1b]0;owned\\x07 [bold]x[/bold] [/nope] :smile: \\x9b2J \\u202eabc \\udc80 end" in text(shown)
    for control in ("\x1b[31m", "\x1b]", "\x07", "\x9b", "‮", "\udc80", "😄"):
        assert control not in text(shown)
    escapes = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
    assert set(escapes.findall(text(shown))) <= set(escapes.findall(text(harmless)))


def test_a_live_display_shows_bars_and_cleans_up() -> None:
    shown, clock = console(is_terminal=True), Clock()
    with Progress(shown, clock=clock) as told:
        told.started(start({"slow": 40, "quick": 10}, {"quick": 5}))
        told.slot_ready("quick", "cpu", 1)
        clock.now += 10
        told.block_done(receipt("a", model="quick", flips={"stale": 4}, reasons={"error": "E: no"}))
        assert told._live is not None
        told._live.refresh()
        assert not text(shown).endswith("\x1b[?25h")
        told.finished({})
    said = text(shown)
    assert re.search(r"quick +━+ +15/15", said)
    assert re.search(r"slow +0/40", said)
    assert "60.0/min · ETA 40 s · 0 slots ready · flips in this run: stale 4" in said
    assert said.index("quick: E: no") < said.rindex("15/15")
    assert said.count("\x1b[?25h") == 1
    assert said.splitlines()[-1].removeprefix("\x1b[?25h").startswith("15 of 55 recorded")


def test_many_models_fit_the_screen() -> None:
    shown = console(is_terminal=True, height=12)
    with Progress(shown) as told:
        told.started(start({f"model-{num}": 10 for num in range(30)}))
        told.slot_ready("model-29", "cpu", 1)
        assert told._live is not None
        told._live.refresh()
        last = text(shown).rpartition("model-29")[2]
    assert "and 24 models more" in last
    assert last.count("model-") == 5


def test_a_broken_terminal_does_not_reach_the_run() -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    for is_terminal in (False, True):
        shown = Console(file=Broken(), force_terminal=is_terminal)
        with Progress(shown) as told:
            told.started(start({"m": 10}))
            told.block_done(receipt("a", reasons={"error": "E: x"}))
            told.problem("m", "x")
            told.block_done(None)  # type: ignore[arg-type]  # nor does a bug of ours
            told.finished({})


def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    run = (
        "import sys\nfrom orchestrator.listener import Start\nfrom orchestrator.progress import Progress\n"
        "start, told = Start('run-7', 'g', 's', 'e', {'m': 1}, {}, {'m': 1}, {}), Progress()\n"
        "for _ in range(5000): told.started(start)\n"
        "sys.stderr.write('ended')"
    )
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "$RUN" | head -1'],
        env={"RUN": run, "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("run run-7")
    assert done.stderr == "ended"


def test_an_encoding_without_the_characters_is_no_trouble() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    told = Progress(Console(file=stream))
    told.started(start({"é": 1}))
    stream.flush()
    assert b"\\xe9: 1 planned" in stream.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7380, "2 h 3 min"), (90000, "1 d 1 h")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_one_line_is_one_short_line() -> None:
    assert one_line("a\n\tb   c") == "a b c"
    assert one_line("é 漢 🙂") == "é 漢 🙂"
    assert len(one_line("\x1b" * 10_000_000)) == 500
