"""The per-arm loop against the product, on the same trials: seconds, the ratio, and how near the ideal it comes.

After each block of the product the loop runs every k-th of that block's episodes, so both sides meet the same load.
The loop's time is forward passes and cache operations alone. The product's is given twice: its engine's, which is the
same work, and its worker's, which is all that is done to a block: renders, splits, digests, Layer 1, trials that the
sentinel repeats, judging, and the commit to Parquet. Replies are compared trial by trial, by token ids; one that
differs ends in exit code 1.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import ideal, measure, product
from benchmarks.figures import Figures, LoopTimes, ProductTimes, report, work_of
from benchmarks.product import Clock, Slot
from benchmarks.trials import Situation, sharing, situation
from workers.block import Block, Receipt, Work
from workers.errors import ConfigError
from workers.split import split
from workers.worker import Worker

if TYPE_CHECKING:
    from benchmarks.loop import Loop, Reply

DEFAULT: tuple[str, ...] = ()
EFFECTS = (
    "+grid=effects",
    "exclude=[]",
    "model=smollm2-135m",
    "study.arms=[stale,text_present,fresh,cold,truncate,checkpoint,position_control,branch_scoped]",
)
GRIDS = {"default": DEFAULT, "effects": EFFECTS}
MODES = {"every arm decoded": ("decode_once=false",), "one decode per proven state": ("decode_once=true",)}


@dataclass
class Loops:
    """What the loop ran, and all trials of the grid as it would run them.

    Attributes:
        loop: loaded at the first episode.
        threads: device and threads, of both sides.
        replies: (episode_id, arm) → the loop's trial.
        found: every episode with the arms that are asked for it; from the first run.
    """

    loop: Loop | None = None
    threads: str = ""
    replies: dict[tuple[str, str], Reply] = field(default_factory=dict)
    found: dict[str, tuple[Situation, list[str]]] = field(default_factory=dict)

    def note(self, worker: Worker, work: Work) -> None:
        """Take an episode in."""
        if work.episode_id not in self.found:
            parts, texts = split(worker.engine, work.episode), _texts(worker, work)
            arms = [trial.arm for trial in work.trials]
            self.found[work.episode_id] = situation(work.episode_id, parts, texts), arms

    def run(self, worker: Worker, work: Work) -> None:
        """Run all arms of an episode."""
        if self.loop is None:
            self.loop, self.threads = _loop(worker), worker.facts.device
        one, _ = self.found[work.episode_id]
        for trial in work.trials:
            if one.can(trial.arm):
                reply = self.loop.run(trial.arm, one, trial.decode.max_new_tokens)
                self.replies[work.episode_id, trial.arm] = reply


def _loop(worker: Worker) -> Loop:
    from benchmarks import loop

    engine: Any = worker.engine
    return loop.load(worker.job.model, engine._eos_ids, num_tokens=len(engine._chat._tokenizer))


def _texts(worker: Worker, work: Work) -> Iterator[tuple[int, ...]]:
    """The forced choice that the study asks for, as ids."""
    engine: Any = worker.engine
    return (engine._chat.encode(text) for text in worker.study.judge.texts(work.episode))


def beside(clock: Clock, loops: Loops, every: int, first: int) -> type[Worker]:
    """A timed worker; after each block the loop runs those of its episodes whose turn it is."""

    class Beside(product.timed(clock)):  # type: ignore[misc]
        num_seen = 0

        def run(self, block: Block) -> Receipt:
            receipt: Receipt = super().run(block)
            for work in block.works:
                loops.note(self, work)
                if self.num_seen % every == first:
                    loops.run(self, work)
                type(self).num_seen += 1
            return receipt

    return Beside


def measured(overrides: Sequence[str], num_rounds: int, sample: int, slot: Slot | None = None) -> Figures:
    """Each way in each round, with the loop beside it, on every `sample`-th episode over all of them.

    Raises:
        ConfigError: the loop has nothing to run, or no such arm.
    """
    loops = Loops()
    clocks: dict[str, list[Clock]] = {mode: [] for mode in MODES}
    rows: dict[str, list[dict[str, Any]]] = {}
    different: list[str] = []
    turns = [(number, mode) for number in range(num_rounds) for mode in MODES]
    with product.loaded_once():
        for turn, (_, mode) in enumerate(turns):
            clock = Clock()
            worker = beside(clock, loops, sample * len(turns), turn * sample)
            rows[mode] = _run([*overrides, *MODES[mode]], worker, slot)
            clocks[mode].append(clock)
            different += _different(rows[mode], loops.replies)
    if loops.loop is None:
        raise ConfigError(f"--sample {sample}: the loop would run no episode")
    shared = sharing(loops.found.values())
    ways = [
        ProductTimes(
            mode,
            [clock.engine.total_s for clock in clocks[mode]],
            [clock.total_s for clock in clocks[mode]],
            work_of(loops.found, shared, rows[mode]),
        )
        for mode in MODES
    ]
    model = loops.loop.model
    return Figures(
        title=_title(overrides, loops),
        loop=_loop_times(loops, len(next(iter(rows.values())))),
        product=ways,
        sharing=shared,
        weights=ideal.weights_of(model),
        rates=ideal.rates(model.device.type, str(model.dtype).removeprefix("torch.")),
        different=different,
        num_compared=len(loops.replies),
        setting=f"{len(turns)} runs of the product in turn, the loop beside each; {loops.threads} on both sides.",
    )


def _loop_times(loops: Loops, num_trials: int) -> LoopTimes:
    replies = loops.replies.values()
    num_run = len({episode_id for episode_id, _ in loops.replies})
    reply_s, scores_s = [one.reply_s for one in replies], [one.scores_s for one in replies]
    return LoopTimes(reply_s, scores_s, num_run, len(loops.found), num_trials)


def _title(overrides: Sequence[str], loops: Loops) -> str:
    arms = {arm for _, names in loops.found.values() for arm in names}
    return f"{len(loops.found)} episodes × {len(arms)} arms: python -m orchestrator {' '.join(overrides)}".strip()


def _run(overrides: Sequence[str], worker: type[Worker], slot: Slot | None) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="residue-throughput-") as folder:
        found = product.prepared([*overrides, "executor=inline"], Path(folder), slot)
        product.carried_out(found, product.inline(worker))
        return product.rows(found, ("episode_id", "arm", "reply_ids", "decode_tokens", "stop", "decoded_with"))


def _different(rows: Sequence[dict[str, Any]], replies: dict[tuple[str, str], Reply]) -> list[str]:
    """Trials of which the product's reply is not the loop's, and those that are missing on one side."""
    found = {(row["episode_id"], row["arm"]): row for row in rows if row["status"] == "done"}
    return [
        f"{arm} of episode {episode_id[:8]}"
        for (episode_id, arm), reply in replies.items()
        if (episode_id, arm) not in found or tuple(found[episode_id, arm]["reply_ids"]) != reply.ids
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a reply differs."""
    parser = measure.parser("throughput", __doc__)
    parser.add_argument("--grid", choices=sorted(GRIDS), default="default", help="18 episodes × 6 arms, or 360 × 8")
    parser.add_argument("--rounds", type=measure.at_least(1), default=1, help="of the product, each way (default: 1)")
    parser.add_argument("--sample", type=measure.at_least(1), default=1, help="the loop runs every k-th episode")
    parser.add_argument("--threads", type=measure.at_least(1), help="of both sides; default: what a slot gets here")
    parser.add_argument("--gpus", type=measure.at_least(0), help="of a slot; default: what the model's YAML says")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="default: the model's YAML")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the command, such as limit=12")

    def run() -> int:
        asked = parser.parse_args(arguments)
        slot = Slot(asked.threads, asked.gpus, asked.dtype)
        figures = measured([*GRIDS[asked.grid], *asked.overrides], asked.rounds, asked.sample, slot)
        print("\n".join(report(figures)))
        return measure.FAILED if figures.different else measure.FINE

    return measure.told(run)


if __name__ == "__main__":
    sys.exit(main())
