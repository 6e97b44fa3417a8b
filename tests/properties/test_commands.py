"""No command line ends in a traceback: it does what it says, or one line says what, where and the mend."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import config
from orchestrator.command import main
from orchestrator.config_schema import RunConfig
from tests.orchestrator.unions import laid_out

KEYS = (
    *RunConfig.model_fields,
    *("grid", "model", "models", "store.root", "store.kind", "executor.kind", "executor.slots", "executor.address"),
    *("tracking.kind", "tracking.mode", "tracking.project", "study.arms", "study.levels.vehicle", "study.decode"),
    *("study.decode.temperature", "study.decode.num_draws", "study.levels", "study.levels.guard", "study.gates"),
)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
VALUES = st.one_of(
    st.sampled_from(
        ["null", "true", "[]", "{}", "[stale,cold]", "[scripted]", "scripted", "[[1]]", "{a: 1}", "''", "${x}"]
    ),
    st.sampled_from(["-1", "0", "1e999", "nan", "9999999999999999999", "0x1f", "???", "rollback", "inline", "off"]),
    st.integers().map(str),
    st.floats().map(str),
    WORDS,
)
MARKS = st.sampled_from(["", "", "", "", "+", "++", "~"])


@st.composite
def overrides(draw: st.DrawFn) -> str:
    """`key=value`, a real key, one nearly real or none at all."""
    key = draw(st.sampled_from(KEYS) | st.sampled_from(KEYS).map(lambda name: name[:-1] + "x") | WORDS)
    return f"{draw(MARKS)}{key}{draw(st.sampled_from(['=', '=', '=', '']))}{draw(VALUES)}"


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(overrides(), min_size=1, max_size=3))
def test_random_overrides_never_end_in_a_traceback(
    said: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("user"))
    try:
        # Only the plan: what is asked is held against the schema, the grid and an empty store.
        code = main([*said, "model=scripted", "mode=plan"])
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    err = capsys.readouterr().err
    assert code in (0, 1, 3), said
    assert "Traceback" not in err, (said, err)
    assert len(err.strip().splitlines()) <= 1, (said, err)
    assert (code == 1) == err.startswith("error: "), (said, err)


AXES = {
    "study.arms": ("stale", "fresh", "cold", "truncate"),
    "study.levels.vehicle": ("tool_return", "retrieved_document", "user_turn"),
    "study.levels.strength": ("neutral", "suggestive", "imperative"),
    "study.levels.surface": ("tensor_probe", "session_app"),
}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(orders=st.fixed_dictionaries({key: st.permutations(levels) for key, levels in AXES.items()}), data=st.data())
def test_ids_do_not_depend_on_the_order_in_which_levels_and_keys_are_said(
    orders: dict[str, list[str]], data: st.DataObject
) -> None:
    """DESIGN §4.1: what was asked, not how it was run."""
    said = data.draw(st.permutations([f"{key}=[{','.join(levels)}]" for key, levels in orders.items()]))
    plain = [f"{key}=[{','.join(levels)}]" for key, levels in AXES.items()]
    ours, theirs = (sorted(laid_out(config.load(["model=scripted", *one])).cells.ids) for one in (said, plain))
    assert ours == theirs
