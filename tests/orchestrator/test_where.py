"""`where=` keeps the cells it names, and refuses everything that is not about axes."""

from __future__ import annotations

import pytest

from orchestrator.where import predicate
from workers.errors import ConfigError

AXES = ("model", "arm", "vehicle", "guard")
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
    assert predicate(where, AXES)(CELL)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "where", ["vehicle == 'tool_return'", "guard", "arm in ()", {"arm": []}, {"vehicle": "tool_return"}]
)
def test_it_drops_what_it_does_not_describe(where: object) -> None:
    assert not predicate(where, AXES)(CELL)  # type: ignore[arg-type]


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
    ],
)
def test_anything_but_a_comparison_of_axes_is_refused(where: str) -> None:
    with pytest.raises(ConfigError):
        predicate(where, AXES)


@pytest.mark.parametrize("where", ["vehicel == 'x'", {"vehicel": "x"}])
def test_an_unknown_axis_names_the_nearest(where: object) -> None:
    with pytest.raises(ConfigError, match="did you mean 'vehicle'"):
        predicate(where, AXES)  # type: ignore[arg-type]
