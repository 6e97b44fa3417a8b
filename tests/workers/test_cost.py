"""The cost study: prefixes of many lengths, and clocks that hold what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from orchestrator import config
from workers import bench
from workers.block import Block, Work
from workers.engine import Handle
from workers.engine.null import NullEngine
from workers.errors import ConfigError
from workers.runner import BlockRunner
from workers.spec import ModelSpec
from workers.studies import get

Row = dict[str, Any]
FORK_MS, CROP_MS = 3, 7
SHORT = ("study=cost", "study.levels.num_words=[5,20]")


class Deferred(NullEngine):
    """A device that does later what it is asked: a millisecond a token, a few for a copy and for a crop."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.now_ms = self.pending_ms = 0
        self.prefilled: list[tuple[int, ...]] = []

    def wait(self) -> None:
        self.now_ms, self.pending_ms = self.now_ms + self.pending_ms, 0

    def prefill(self, ids: Sequence[int], *, records_past: bool = False) -> Handle:
        self.prefilled.append(tuple(ids))
        return super().prefill(ids, records_past=records_past)

    def feed(self, handle: Handle, ids: Sequence[int]) -> None:
        self.pending_ms += len(ids)
        super().feed(handle, ids)

    def fork(self, handle: Handle) -> Handle:
        self.pending_ms += FORK_MS
        return super().fork(handle)

    def crop(self, handle: Handle, length: int) -> Handle:
        self.pending_ms += CROP_MS
        return super().crop(handle, length)


@pytest.fixture
def device(scripted: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> Deferred:
    engine = Deferred(scripted)
    monkeypatch.setattr(bench.time, "perf_counter", lambda: engine.now_ms / 1000)
    return engine


@pytest.fixture
def works(make_blocks: Callable[..., list[Block]]) -> list[Work]:
    return [work for block in make_blocks(*SHORT) for work in block.works]


def rows(engine: NullEngine, works: list[Work]) -> Iterator[tuple[Work, dict[str, Row]]]:
    for work in works:
        [found] = BlockRunner(engine, get("cost"), "class", decode_once=False).run([work]).rows
        yield work, {trial.arm: row for trial, row in zip(work.trials, found, strict=True)}


def test_a_clock_holds_the_restore_and_nothing_else(device: Deferred, works: list[Work]) -> None:
    """Not the session, its snapshot, the branch or the delta; and it is read when the device is done."""
    for _, found in rows(device, works):
        assert {row["status"] for row in found.values()} == {"done"}
        committed, delta = (len(found["cold"][name]) for name in ("committed_ids", "delta_ids"))
        restores = {arm: pytest.approx(row["restore_ms"]) for arm, row in found.items()}
        assert restores == {"fresh": committed, "truncate": CROP_MS, "checkpoint": FORK_MS, "cold": 0}
        prefills = {arm: pytest.approx(row["prefill_ms"]) for arm, row in found.items()}
        assert prefills == {"fresh": committed, "truncate": 0, "checkpoint": 0, "cold": committed + delta}
        recomputed = {arm: row["recomputed_tokens"] for arm, row in found.items()}
        assert recomputed == {"fresh": committed, "truncate": 0, "checkpoint": 0, "cold": 0}


def test_a_repeat_is_a_session_and_restores_of_its_own(device: Deferred, works: list[Work]) -> None:
    """Each prefills its prefix for the session, for `fresh` and for Layer 1, and with the delta for `cold`."""
    for _, found in rows(device, works):
        committed, delta = (tuple(found["cold"][name]) for name in ("committed_ids", "delta_ids"))
        assert sorted(device.prefilled) == sorted([committed, committed, committed, committed + delta])
        device.prefilled.clear()


def test_repeats_of_a_length_are_equally_long_and_differ_from_the_first_word_on(
    device: Deferred, works: list[Work]
) -> None:
    """So that nothing which shares work by content can answer one from the other."""
    prefixes: dict[int, dict[int, tuple[int, ...]]] = {}
    for work, found in rows(device, works):
        axes = work.episode.axes
        prefixes.setdefault(axes["num_words"], {})[axes["repeat"]] = tuple(found["fresh"]["committed_ids"])
        opening = work.episode.committed[0].text.split()[0]
        assert opening == f"{axes['repeat']}."
    assert {num_words: len(found) for num_words, found in prefixes.items()} == {5: 3, 20: 3}
    for found in prefixes.values():
        assert len({len(ids) for ids in found.values()}) == 1
        assert len(set(found.values())) == 3
    assert len(prefixes[5][0]) < len(prefixes[20][0])


def test_the_words_are_as_many_as_asked_for(works: list[Work]) -> None:
    for work in works:
        assert len(work.episode.committed[0].text.split()) == 1 + work.episode.axes["num_words"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("study.levels.num_words=[]", "num_words should name at least one level"),
        ("study.levels.num_words=[5,5]", "num_words should name at least one level, and none twice"),
        ("study.levels.num_words=[0]", "study.levels.num_words.0"),
        ("study.levels.repeat=[-1]", "study.levels.repeat.0"),
        ("study.texts.marker=nowhere", "branch does not say the marker 'nowhere'"),
        ("study.texts.opening=Hello", "study.texts.opening"),
        ("study.levels.num_word=[5]", "did you mean 'num_words'"),
        ("study.arms=[fersh]", "did you mean 'fresh'"),
    ],
)
def test_a_wrong_level_or_text_is_one_line(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(["study=cost", "model=scripted", override])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
