"""The benchmarks' arithmetic, and that each of them runs, in seconds and on small engines; nothing is timed here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as every
from benchmarks import figures, ideal, measure, overhead, slots, startup, throughput, trials
from benchmarks.engine_time import EngineTime
from benchmarks.figures import LoopTimes
from benchmarks.ideal import Rates, Weights, Work
from benchmarks.loop import ARMS
from benchmarks.overhead import Blocks
from benchmarks.slots import Measured
from benchmarks.trials import Situation, sharing

ROOT = Path(__file__).parents[1]
ONE = Situation("a", committed=(1, 2, 3), branch=(4, 5), delta=(9,), neutral=(6, 5), texts=((7,), (7, 8)))
OTHER = Situation("b", committed=(1, 2, 3), branch=(4, 6), delta=(9,), neutral=None, texts=((7,),))


def tables(text: str) -> list[list[list[str]]]:
    """The Markdown tables of a text, without the lines of dashes."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[row for at, row in enumerate(table) if at != 1] for table in found if table]


@pytest.mark.parametrize(
    ("chains", "num_nodes"),
    [
        ([], 0),
        ([(1, 2, 3)], 3),
        ([(1, 2, 3), (1, 2, 3)], 3),
        ([(1, 2, 3), (1, 2)], 3),
        ([(1, 2), (1, 3), (2, 2)], 5),
        ([(1, 2, 3), (1, 4), (1, 2, 5)], 5),
    ],
)
def test_a_distinct_prefix_is_counted_once(chains: list[tuple[int, ...]], num_nodes: int) -> None:
    assert trials.num_unique(chains) == num_nodes
    assert trials.num_unique(reversed(chains)) == num_nodes


def test_a_class_shares_with_itself_and_with_no_other() -> None:
    found = sharing([(ONE, ["stale", "truncate", "fresh", "cold", "text_present"]), (OTHER, ["fresh"])])
    assert found["session"].num_asked == 6 + 6  # each prefills the branch and the delta
    assert found["session"].num_unique == 5 + 1 + 1  # the explored session, and the delta behind it and behind the crop
    assert (found["fresh"].num_asked, found["fresh"].num_unique) == (8, 4)
    assert (found["cold"].num_asked, found["text_present"].num_asked) == (4, 6)
    assert (found[trials.REFERENCE].num_asked, found[trials.REFERENCE].num_unique) == (6, 3)


def test_an_arm_that_an_episode_does_not_have_asks_for_nothing() -> None:
    assert "session" not in sharing([(OTHER, ["position_control"])])
    assert sharing([(ONE, ["position_control"])])["session"].num_asked == 6


def test_the_ideal_decodes_at_the_later_of_its_bounds() -> None:
    work = Work(num_prefill=100, num_decode=64, num_scored=0, num_rows=4)
    weights = Weights(num_body=500, num_head=100, num_bytes=2400)
    slow_products = ideal.ideal(work, weights, Rates(flops=1000, bytes=1e9), batch=32)
    slow_memory = ideal.ideal(work, weights, Rates(flops=1e9, bytes=100), batch=32)
    assert slow_products.prefill_s == pytest.approx(100)
    assert slow_products.decode_by_products_s == pytest.approx((64 - 4) * 1 + 64 * 0.2)
    assert slow_products.total_s == pytest.approx(100 + 60 + 12.8)
    assert slow_memory.decode_by_memory_s == pytest.approx(2 * 24)
    assert slow_memory.total_s == pytest.approx(48, abs=0.01)


def test_scored_texts_are_work() -> None:
    with_texts, without = (
        ideal.ideal(Work(1, 1, num, 1), Weights(5, 5, 40), Rates(10, 10), 1).total_s for num in (3, 0)
    )
    assert with_texts - without == pytest.approx(3 * 2)


def test_a_reply_that_was_decoded_with_another_is_no_work() -> None:
    row = {"episode_id": "a", "status": "done", "decode_tokens": 3, "stop": "eos", "decoded_with": None}
    rows = [row, row | {"decoded_with": "x/0"}, row | {"stop": "budget"}, row | {"status": "invalid"}]
    found = {"a": (ONE, ["fresh", "cold"])}
    work = figures.work_of(found, sharing(found.values()), rows)
    assert (work.num_rows, work.num_decode, work.num_scored) == (2, 4 + 3, 2 * 3)
    assert work.num_prefill == 4 + 4 + 3


def test_a_sample_of_the_loop_stands_for_all_trials() -> None:
    loop = LoopTimes(reply_s=[1, 3], scores_s=[1, 1], num_episodes=1, num_all=10, num_trials=20)
    assert (loop.replies_s, loop.total_s, loop.is_whole) == (40, 60, False)
    assert LoopTimes([1, 3], [1, 1], 10, 10, 2).total_s == 6


@pytest.mark.parametrize(
    ("values", "said"), [([], "–"), ([2.0], "2"), ([1.0, 2.0, 3.0], "2 (1.5–2.5)"), ([1.0] * 4, "1 (1–1)")]
)
def test_a_spread_is_the_median_with_quartiles(values: list[float], said: str) -> None:
    assert measure.spread(values) == said


def test_orchestration_is_what_the_worker_does_not_spend_and_the_commits() -> None:
    blocks = Blocks(between_s=[1.0, 1.0], worker_s=[0.98, 0.99], num_trials=[10, 20], commit_s=0.01)
    assert blocks.share == pytest.approx(0.025)
    assert blocks.cell_ms == pytest.approx([100, 50])
    assert blocks.dispatch_ms == pytest.approx([20, 10])


def test_private_and_shared_pages_are_told_apart() -> None:
    rollup = "Rss: 900 kB\nPss_Dirty: 7 kB\nShared_Clean: 100 kB\nShared_Dirty: 20 kB\nPrivate_Clean: 3 kB\n"
    assert slots.megabytes(rollup + "Private_Dirty: 4000 kB\n") == (4.003, 0.12)


def test_the_ratio_of_the_slots_is_the_narrow_ones_by_the_wide() -> None:
    narrow, wide = slots.SIDES
    found = {narrow: [Measured(9, []), Measured(10, []), Measured(11, [])], wide: [Measured(20, [])]}
    assert slots.ratio(found) == 0.5


def test_a_stage_takes_from_the_end_of_the_one_before() -> None:
    ends = [("loaded", 5.0), ("imports", 2.5), ("loaded", 9.0)]
    assert startup.lengths(1.0, ends) == {"imports": 1.5, "loaded": 2.5}


@pytest.mark.parametrize("grid", [(), ("study.arms=[stale,position_control,branch_scoped]",)])
def test_the_loop_and_the_product_reply_alike(grid: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert throughput.main(["model=random-llama", "limit=6", *grid]) == 0
    out = capsys.readouterr().out
    times, classes = tables(out)
    assert [row[0].partition(",")[0] for row in times[1:]] == ["per-arm loop"] * 2 + [
        "… ms a trial",
        *["Residue"] * len(throughput.MODES),
    ]
    assert classes[-1][0] == "all"
    assert "Reply ids equal in 6 of 6 trials" in out
    assert "commit" in out


def test_a_reply_that_differs_is_told_and_ends_in_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.loop import Loop

    decoded = Loop._decoded
    monkeypatch.setattr(Loop, "_decoded", lambda self, *rest: (*decoded(self, *rest), 0))
    assert throughput.main(["model=random-llama", "limit=2"]) == 1
    out = capsys.readouterr().out
    assert "Reply ids equal in 0 of 2 trials" in out
    assert "DIFFERENT: " in out


def test_every_episode_is_looped_once_over_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = throughput.measured(["model=random-llama", "limit=12", "study.arms=[cold,fresh]"], 2, 1)
    assert (found.loop.num_episodes, found.loop.num_all, found.num_compared) == (6, 6, 12)
    assert found.loop.is_whole
    assert all(len(times.engine_s) == len(times.worker_s) == 2 for times in found.product)
    assert all(
        engine < worker
        for times in found.product
        for engine, worker in zip(times.engine_s, times.worker_s, strict=True)
    )


def test_the_loop_knows_every_arm_of_the_grids_it_runs() -> None:
    (arms,) = [word.partition("=")[2].strip("[]").split(",") for word in throughput.EFFECTS if "arms" in word]
    assert len(arms) == 8
    assert set(arms) <= set(ARMS)


RAY = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@RAY
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(
    ("main", "arguments", "said"),
    [
        (overhead.main, ["--model", "scripted", "limit=24"], "ms a cell, all in all"),
        (slots.main, ["--rounds", "1", "model=scripted", "study.arms=[cold]"], "private MB a slot, loaded"),
        (startup.main, ["--rounds", "1", "model=scripted", "limit=2"], "first block committed"),
    ],
    ids=["overhead", "slots", "startup"],
)
def test_what_needs_ray_runs_and_prints_its_table(
    main: Callable[..., int], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) in (measure.FINE, measure.SHORT)
    out = capsys.readouterr().out
    assert said in out
    assert tables(out)


@pytest.mark.parametrize("script", every.SCRIPTS, ids=lambda script: script.command)
def test_the_page_shows_what_make_bench_runs(script: Any) -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert script.title in page
    assert f"`{script.command}`" in page


@pytest.mark.parametrize("main", [throughput.main, overhead.main, slots.main, startup.main])
def test_a_wrong_command_is_one_line(main: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rouns", "1"]) == 1
    assert main(["model=random-lama"]) == 1
    err = capsys.readouterr().err
    assert [line.startswith("error: ") for line in err.splitlines()] == [True, True]
    assert "did you mean 'random-llama'" in err


@pytest.mark.gpu
def test_on_a_gpu_the_loop_and_the_product_reply_alike() -> None:
    assert throughput.main(["--gpus", "1", "model=random-llama", "limit=6"]) == 0


def test_the_engine_s_time_is_that_of_its_outermost_calls_and_not_the_sentinel_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workers.engine.causal import CausalEngine
    from workers.sentinel import Sentinel

    now = [0.0]

    def taking(seconds: float, inner: Callable[[], object] = lambda: None) -> Callable[..., object]:
        def call(*_: object) -> None:
            now[0] += seconds
            inner()

        return call

    monkeypatch.setattr("benchmarks.engine_time.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(CausalEngine, "fork", taking(1))
    monkeypatch.setattr(CausalEngine, "feed", taking(10, lambda: CausalEngine.fork(None, None)))  # type: ignore[arg-type]
    monkeypatch.setattr(CausalEngine, "digest", taking(100))
    monkeypatch.setattr(Sentinel, "alarm", taking(1000, lambda: CausalEngine.feed(None, None, ())))  # type: ignore[arg-type]
    clock = EngineTime()
    with clock.running():
        for call in (CausalEngine.feed, CausalEngine.digest, Sentinel.alarm):
            call(None)  # type: ignore[arg-type]
    assert (clock.total_s, now[0]) == (11, 1122)
