"""`where=` keeps the cells it names, and refuses everything that is not about axes."""

from __future__ import annotations

import pytest

from orchestrator.where import predicate
from workers.errors import ConfigError

LEVELS = {
    "model": ["a", "b"],
    "arm": ["stale", "cold"],
    "vehicle": ["tool_return", "user_turn"],
    "guard": [False, True],
}
CELL = {"model": "a", "arm": "stale", "vehicle": "user_turn", "guard": False}


@pytest.mark.parametrize(
    "where",
    [
        None,
        "vehicle == 'user_turn'",
        "arm in ('stale', 'cold') and not guard",
        "arm not in ['cold'] and (model == 'b' or vehicle != 'tool_return')",
        "'a' == model == 'a'",
        {"vehicle": "user_turn"},
        {"arm": ["stale", "cold"], "guard": False},
    ],
)
def test_it_keeps_what_it_describes(where: object) -> None:
    assert predicate(where, LEVELS)(CELL)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "where", ["vehicle == 'tool_return'", "guard", "arm in ()", {"arm": []}, {"vehicle": "tool_return"}]
)
def test_it_drops_what_it_does_not_describe(where: object) -> None:
    assert not predicate(where, LEVELS)(CELL)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "where",
    [
        "__import__('os').system('true')",
        "vehicle.upper() == 'X'",
        "vehicle = 'x'",
        "[x for x in vehicle]",
        "1 +",
        "lambda: 1",
        "vehicle == f'{arm}'",
        "vehicle < 'x'",
        "arm in 3",
        "arm in model",
        "(" * 500,
        "",
        "vehicle",
        "not arm",
        "guard and vehicle",
        "1",
        "True",
        "'a' 'b'",
        "'a' == 'a'",
        "('a', 'b')",
        "not " * 150 + "'x'",
    ],
)
def test_anything_but_a_comparison_of_axes_is_refused(where: str) -> None:
    with pytest.raises(ConfigError):
        predicate(where, LEVELS)


@pytest.mark.parametrize("where", ["vehicle = 'user_turn'", "guard and vehicle='user_turn'"])
def test_a_comparison_by_one_equals_sign_names_the_two(where: str) -> None:
    with pytest.raises(ConfigError, match=r"is not an expression: .*; two equals signs compare: =="):
        predicate(where, LEVELS)


@pytest.mark.parametrize("where", ["vehicle ==", "vehicle == 'a' 'b", "guard <= (", "guard != ("])
def test_another_broken_expression_is_not_told_about_equals_signs(where: str) -> None:
    with pytest.raises(ConfigError, match="is not an expression") as refused:
        predicate(where, LEVELS)
    assert "equals" not in str(refused.value)


@pytest.mark.parametrize("where", ["vehicel == 'x'", {"vehicel": "x"}])
def test_an_unknown_axis_names_the_nearest(where: object) -> None:
    with pytest.raises(ConfigError, match="did you mean 'vehicle'"):
        predicate(where, LEVELS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "where",
    [
        "vehicle == 'tool_retrun'",
        "vehicle != 'tool_retrun'",
        "'tool_retrun' == vehicle",
        "guard or vehicle in ('user_turn', 'tool_retrun')",
        {"vehicle": ["user_turn", "tool_retrun"]},
        {"vehicle": "tool_retrun"},
    ],
)
def test_an_unknown_level_names_the_nearest(where: object) -> None:
    with pytest.raises(ConfigError, match="no vehicle 'tool_retrun', did you mean 'tool_return'"):
        predicate(where, LEVELS)  # type: ignore[arg-type]


def test_a_yes_or_no_axis_is_a_condition_by_itself() -> None:
    assert predicate("not guard", LEVELS)(CELL)
    assert not predicate("guard or arm == 'cold'", LEVELS)(CELL)
