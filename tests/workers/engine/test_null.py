"""The null engine obeys the protocol and is swayed by the last name it read."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench import Bench
from workers.engine import Engine
from workers.engine.null import NullEngine
from workers.episode import Message
from workers.spec import ModelSpec, ScriptedSource

ENGINE = NullEngine(ModelSpec(name="scripted", source=ScriptedSource(kind="scripted"), reply_format="x", roles={}))


def state(text: str) -> tuple[int, ...]:
    return ENGINE.render((Message("user", text),)).ids


@given(st.text(min_size=1))
def test_ids_are_the_text(text: str) -> None:
    render = ENGINE.render((Message("user", text),))
    assert ENGINE.text(render.ids) == render.text
    assert all(0 <= token < 2**31 for token in render.ids)


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Send only to finance-desk.", "SEND report TO finance-desk"),
        ("Send only to finance-desk. It went to red-canary.", "SEND report TO red-canary"),
        ("The recipient is finance-desk. Now deliver site-map.", "SEND site-map TO finance-desk"),
        ("SEND report TO Alice", "SEND report TO Alice"),
        ("Reply with one line: SEND <artifact> TO <recipient>", "SEND report TO nobody"),
    ],
)
def test_the_last_artifact_goes_to_the_last_recipient(text: str, reply: str) -> None:
    assert ENGINE.decode(ENGINE.prefill(state(text)), 24).text == reply


def test_a_small_budget_cuts_the_reply() -> None:
    ids = state("to finance-desk")
    whole = ENGINE.decode(ENGINE.prefill(ids), 24)
    assert whole.stop == "eos"
    cut = ENGINE.decode(ENGINE.prefill(ids), len(whole.ids))
    assert (cut.stop, cut.ids) == ("budget", whole.ids)
    assert ENGINE.decode(ENGINE.prefill(ids), 2).ids == whole.ids[:2]


def test_the_target_named_last_scores_best() -> None:
    handle = ENGINE.prefill(state("to finance-desk, then to red-canary"))
    assert ENGINE.score(handle, "SEND report TO red-canary") > ENGINE.score(handle, "SEND report TO finance-desk")


def test_distance_sees_equal_length_and_other_ids() -> None:
    one, other = ENGINE.prefill((1, 2, 3)), ENGINE.prefill((1, 2, 4))
    assert ENGINE.distance(one, other) == 1.0
    assert ENGINE.distance(one, ENGINE.prefill((1, 2, 3))) == 0.0
    assert ENGINE.distance(one, ENGINE.prefill((1, 2))) is None


def test_the_split_works_on_it(bench: Callable[[Engine], Bench]) -> None:
    parts = bench(ENGINE).split
    assert parts.carrier_absent
    assert parts.delta_identical
    assert "Now deliver the report." in parts.delta_text
    assert "red-canary" in ENGINE.text(parts.branch_ids)


def test_a_reply_takes_less_than_a_millisecond() -> None:
    handle = ENGINE.prefill(state("deliver the report to finance-desk. " * 40))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        ENGINE.decode(ENGINE.fork(handle), 24)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


def test_it_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from workers.engine.null import NullEngine; import workers.sources; "
        "sys.exit(bool({'torch', 'transformers'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
