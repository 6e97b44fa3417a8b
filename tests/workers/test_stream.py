"""Noise belongs to a seed, a question, a draw and a step, and to nothing else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from workers.stream import Stream

STREAM = Stream(temperature=0.7, seed=0, question="who", draw=0)
EULER = 0.5772156649015329


def test_the_same_four_give_the_same_noise_in_any_order() -> None:
    forwards = [STREAM.noise(step, 9) for step in range(4)]
    backwards = [replace(STREAM).noise(step, 9) for step in reversed(range(4))]
    for ours, theirs in zip(forwards, reversed(backwards), strict=True):
        assert np.array_equal(ours, theirs)


def test_another_process_gives_the_same_noise() -> None:
    code = "from workers.stream import Stream; print(Stream(0.7, 0, 'who', 0).noise(3, 50).tobytes().hex())"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == STREAM.noise(3, 50).tobytes().hex()


@pytest.mark.parametrize("change", [{"seed": 1}, {"question": "whom"}, {"draw": 1}])
def test_another_seed_question_or_draw_gives_other_noise(change: dict[str, int | str]) -> None:
    assert not np.intersect1d(STREAM.noise(0, 500), replace(STREAM, **change).noise(0, 500)).size  # type: ignore[arg-type]


def test_another_step_gives_other_noise() -> None:
    assert not np.intersect1d(STREAM.noise(0, 500), STREAM.noise(1, 500)).size


def test_a_question_that_spells_another_event_is_not_that_event() -> None:
    one, other = replace(STREAM, seed=1, question="1, 2", draw=3), replace(STREAM, seed=1, question="1", draw=23)
    assert not np.array_equal(one.noise(0, 5), other.noise(0, 5))


def test_the_temperature_does_not_change_the_noise() -> None:
    assert np.array_equal(STREAM.noise(0, 50), replace(STREAM, temperature=2.0).noise(0, 50))


def test_a_longer_answer_begins_with_the_shorter_one() -> None:
    assert np.array_equal(STREAM.noise(0, 100)[:7], STREAM.noise(0, 7))


def test_the_noise_is_standard_gumbel_and_finite() -> None:
    noise = STREAM.noise(0, 100_000)
    assert np.isfinite(noise).all()
    error = np.pi / np.sqrt(6 * noise.size)
    assert abs(noise.mean() - EULER) < 5 * error
    assert abs(noise.var() / (np.pi**2 / 6) - 1) < 0.03


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_the_ends_of_the_generator_s_range_are_finite_too(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    class Constant:
        def __init__(self, key: int) -> None:
            self.key = key

        def random_raw(self, size: int) -> np.ndarray:  # type: ignore[type-arg]
            return np.full(size, word, dtype=np.uint64)

    monkeypatch.setattr(np.random, "Philox", Constant)
    assert np.isfinite(STREAM.noise(0, 1)).all()


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_stream_without_a_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature above 0"):
        replace(STREAM, temperature=temperature)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature: float) -> None:
    logits = np.array([2.0, 1.0, 0.5, 0.0, -1.0])
    wanted = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
    streams = [replace(STREAM, temperature=temperature, draw=draw) for draw in range(4000)]
    drawn = [int(np.argmax(logits / temperature + stream.noise(0, 5))) for stream in streams]
    counts = np.bincount(drawn, minlength=5)
    chi_square = float(((counts - 4000 * wanted) ** 2 / (4000 * wanted)).sum())
    assert chi_square < 18.5, "p < 0.001 at 4 degrees of freedom"
