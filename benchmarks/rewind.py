"""`python benchmarks/rewind.py`: rewinding a cache against prefilling again, on one engine, by length.

Each round makes a session of n tokens, takes a snapshot, feeds a branch, and then times three ways back: prefill the n
tokens again, crop the branch off, copy the snapshot. Each way comes first in its turn. The states that they lead to are
compared with each other, so that nothing quick and wrong is praised. The engine's crop never touches the session: it
works on a copy, which is timed too, and an application that crops in place pays less.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from orchestrator import config
from workers import engine
from workers.engine import Engine, Handle
from workers.episode import Message
from workers.errors import ConfigError, IsolationError, OutOfMemory, ResidueError, Unsupported

WAYS = ("prefill", "crop", "checkpoint")
LENGTHS = (32, 64, 128, 256, 512, 768)
BRANCH_TOKENS = 32
PROSE = "The clerk wrote down the weight, the sender and the day; nobody asked why the parcel came late. "


@dataclass(frozen=True, slots=True)
class Line:
    """One length.

    Attributes:
        ms: way → its times, one a round; empty where the cache family cannot do it.
        are_equal: every way led to the same tokens and, within the engine's Layer-1 tolerance, the same tensors.
    """

    num_tokens: int
    ms: dict[str, list[float]]
    are_equal: bool

    def ratio(self, way: str) -> float | None:
        """How many times longer the prefill takes, by medians."""
        return median(self.ms["prefill"]) / median(self.ms[way]) if self.ms[way] else None


def measure(model: Engine, lengths: Sequence[int], num_rounds: int) -> list[Line]:
    """Every length in every round, so that a machine that grows slower does so for all of them.

    Raises:
        IsolationError: the model's rotary embedding switches between the lengths.
    """
    longest = max(lengths) + BRANCH_TOKENS
    model.check_span(min(lengths), longest)
    prose = model.render((Message("user", PROSE * (1 + longest // 8)),)).ids
    found = {length: Line(length, {way: [] for way in WAYS}, are_equal=True) for length in sorted(lengths)}
    for number in range(num_rounds):
        for length, line in found.items():
            turn = number % len(WAYS)
            ms, are_equal = _round(model, prose[:length], prose[length:longest][:BRANCH_TOKENS], turn)
            times = {way: [*line.ms[way], *([ms[way]] if way in ms else [])] for way in WAYS}
            found[length] = Line(length, times, line.are_equal and are_equal)
    return list(found.values())


def _round(model: Engine, ids: tuple[int, ...], branch: tuple[int, ...], turn: int) -> tuple[dict[str, float], bool]:
    """Way → ms, and whether the states are equal; the ways from position `turn` on."""
    session = model.prefill(ids)
    snapshot = model.fork(session)
    model.feed(session, branch)
    back: dict[str, Callable[[], Handle]] = {
        "prefill": lambda: model.prefill(ids),
        "crop": lambda: model.crop(session, len(ids)),
        "checkpoint": lambda: model.fork(snapshot),
    }
    ms: dict[str, float] = {}
    states: dict[str, Handle] = {}
    for way in (*WAYS[turn:], *WAYS[:turn]):
        try:
            ms[way], states[way] = _timed(model, back[way])
        except Unsupported:
            continue
    # The prefill alone has nothing of the session in it.
    anew = states.pop("prefill")
    return ms, all(_is_equal(model, state, anew) for state in states.values())


def _timed(model: Engine, way: Callable[[], Handle]) -> tuple[float, Handle]:
    model.wait()
    start = time.perf_counter()
    state = way()
    model.wait()
    return 1000 * (time.perf_counter() - start), state


def _is_equal(model: Engine, state: Handle, anew: Handle) -> bool:
    distance = model.distance(state, anew)
    is_near = distance is not None and distance <= model.facts.layer1_tolerance
    return is_near and state.ledger == anew.ledger


def break_even(lines: Sequence[Line], way: str) -> int | None:
    """The length measured from which on `way` is always quicker than the prefill, by medians; None without one."""
    found = None
    for line in reversed(lines):
        ratio = line.ratio(way)
        if ratio is None or ratio <= 1:
            break
        found = line.num_tokens
    return found


def table(lines: Sequence[Line]) -> list[list[str]]:
    """Header and rows: times as median (quartiles) in ms, ratios of medians."""
    header = ["tokens", *(f"{way} ms" for way in WAYS), *(f"prefill / {way}" for way in WAYS[1:]), "states equal"]
    rows = [
        [
            str(line.num_tokens),
            *(_spread(line.ms[way]) for way in WAYS),
            *(f"{ratio:.1f}" if (ratio := line.ratio(way)) is not None else "–" for way in WAYS[1:]),
            "yes" if line.are_equal else "NO",
        ]
        for line in lines
    ]
    return [header, *rows]


def _spread(times: Sequence[float]) -> str:
    if not times:
        return "unsupported"
    low, _, high = quantiles(times, n=4, method="inclusive") if len(times) > 1 else [*times] * 3
    return f"{median(times):.4g} ({low:.4g}–{high:.4g})"


def report(model: Engine, lines: Sequence[Line], num_rounds: int) -> Iterator[str]:
    """The table as Markdown, the break-even lengths, and the machine."""
    header, *rows = table(lines)
    yield from (f"| {' | '.join(row)} |" for row in (header, ["---:"] * len(header), *rows))
    yield ""
    for way in WAYS[1:]:
        if length := break_even(lines, way):
            at = "every length measured, from" if length == lines[0].num_tokens else "from"
            yield f"{way}: quicker than the prefill at {at} {length} tokens on"
        else:
            yield f"{way}: {'not quicker at the longest length' if lines[-1].ms[way] else 'this cache cannot do it'}"
    facts = model.facts
    yield f"{facts.model}, {facts.cache} cache, {facts.device}; {num_rounds} rounds; {facts.versions}"
    yield f"{platform.platform()}, {platform.processor() or platform.machine()}, Python {platform.python_version()}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(message)


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python benchmarks/rewind.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m", help="a file of conf/model (default: smollm2-135m)")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens to rewind to")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU (default: 1)")
    asked = parser.parse_args(arguments)
    sizes = asked.lengths.split(",")
    if not all(size.strip().isdigit() and int(size) for size in sizes):
        raise ConfigError(f"--lengths {asked.lengths}: name numbers of tokens, such as 64,256")
    if min(asked.rounds, asked.threads) < 1:
        raise ConfigError("--rounds and --threads: at least 1")
    asked.lengths = sorted({int(size) for size in sizes})
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where the command is wrong or the model cannot be loaded, 3 where states differ."""
    try:
        asked = _asked(arguments)
        (spec,) = config.load([f"model={asked.model}"]).models
        model = engine.load(spec, num_threads=asked.threads)
        lines = measure(model, asked.lengths, asked.rounds)
    except (ResidueError, IsolationError, OutOfMemory) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(report(model, lines, asked.rounds)))
    return 0 if all(line.are_equal for line in lines) else 3


if __name__ == "__main__":
    sys.exit(main())
