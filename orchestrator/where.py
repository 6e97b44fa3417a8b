"""Which cells `where=` keeps: a small, closed expression language over the axes. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workers.errors import ConfigError, nearest

Predicate = Callable[[Mapping[str, Any]], bool]


def predicate(where: str | dict[str, Any] | None, names: Sequence[str]) -> Predicate:
    """The cells to keep.

    Args:
        where: `vehicle == 'tool_return' and arm in ('stale', 'cold')`, or `{vehicle: tool_return, arm: [stale, cold]}`.
        names: what may be asked about: `model`, `arm` and the study's axes.

    Raises:
        ConfigError: the expression is not of this form, or names something that is no axis.
    """
    if where is None:
        return lambda cell: True
    if isinstance(where, dict):
        return _membership(where, names)
    try:
        tree = ast.parse(where.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:
        raise ConfigError(f"where={where!r} is not an expression: {fault.args[0] if fault.args else fault}") from None
    _check(tree, names, where)
    return lambda cell: bool(_value(tree, cell))


def _membership(where: Mapping[str, Any], names: Sequence[str]) -> Predicate:
    wanted = {}
    for name, levels in where.items():
        _known(name, names)
        wanted[name] = levels if isinstance(levels, list | tuple) else [levels]
    return lambda cell: all(cell[name] in levels for name, levels in wanted.items())


def _known(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ConfigError(f"where: no axis {name!r}{nearest(name, names)}")


def _check(node: ast.expr, names: Sequence[str], where: str) -> None:
    match node:
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                _check(part, names, where)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _check(part, names, where)
        case ast.Compare(left=left, ops=ops, comparators=others) if _is_comparison(ops, others):
            for part in (left, *others):
                _check(part, names, where)
        case ast.Name(id=name):
            _known(name, names)
        case ast.Constant(value=str() | bool() | int()):
            return
        case _:
            raise ConfigError(
                f"where={where!r}: {ast.unparse(node)!r} is not allowed; "
                "use axes, quoted levels, ==, !=, in (…), and, or, not"
            )


def _is_comparison(ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> bool:
    """Known operators, and a list of levels behind every `in`."""
    return all(
        type(op) in _COMPARE and (isinstance(op, ast.Eq | ast.NotEq) or isinstance(other, ast.Tuple | ast.List))
        for op, other in zip(ops, others, strict=True)
    )


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _value(node: ast.expr, cell: Mapping[str, Any]) -> Any:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, cell) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, cell) for part in parts)
        case ast.UnaryOp(operand=part):
            return not _value(part, cell)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(part, cell) for part in (left, *others)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, values[:-1], values[1:], strict=True))
        case ast.Name(id=name):
            return cell[name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_value(part, cell) for part in parts]
        case ast.Constant(value=value):
            return value
    raise AssertionError(node)
