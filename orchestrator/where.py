"""Which cells `where=` keeps: a small, closed expression language over the axes. Pure."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from workers.errors import ConfigError, nearest

Predicate = Callable[[Mapping[str, Any]], bool]

_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")


Levels = Mapping[str, Collection[Any]]
"""Axis → its levels in this grid."""


def predicate(where: str | dict[str, Any] | None, levels: Levels) -> Predicate:
    """The cells to keep.

    Args:
        where: `vehicle == 'tool_return' and arm in ('stale', 'cold')`, or `{vehicle: tool_return, arm: [stale, cold]}`.
        levels: what may be asked about: `model`, `arm` and the study's axes, each with its levels in the grid.

    Raises:
        ConfigError: the expression is not of this form, or names an axis or a level that the grid does not have.
    """
    if where is None:
        return lambda cell: True
    if isinstance(where, dict):
        return _membership(where, levels)
    try:
        tree = ast.parse(where.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:
        mend = "; two equals signs compare: ==" if _ASSIGNMENT.search(where) else ""
        why = fault.args[0] if fault.args else fault
        raise ConfigError(f"where={where!r} is not an expression: {why}{mend}") from None
    _check(tree, levels, where)
    return lambda cell: bool(_value(tree, cell))


def named(where: str | dict[str, Any] | None) -> set[str]:
    """The axes that a checked `where` asks about."""
    if where is None or isinstance(where, dict):
        return set(where or ())
    return {node.id for node in ast.walk(ast.parse(where.strip(), mode="eval")) if isinstance(node, ast.Name)}


def _membership(where: Mapping[str, Any], levels: Levels) -> Predicate:
    wanted = {}
    for name, asked in where.items():
        wanted[name] = asked if isinstance(asked, list | tuple) else [asked]
        _check_axis(name, levels)
        for level in wanted[name]:
            _check_level(level, (name,), levels)
    return lambda cell: all(cell[name] in asked for name, asked in wanted.items())


def _check_axis(name: str, levels: Levels) -> None:
    if name not in levels:
        raise ConfigError(f"where: no axis {name!r}{nearest(name, levels)}")


def _check_level(level: Any, axes: Sequence[str], levels: Levels) -> None:
    """A misspelt level would silently keep no cell, or with `!=` every one."""
    if not any(level in levels[axis] for axis in axes):
        known = [one for axis in axes for one in levels[axis]]
        raise ConfigError(f"where: this grid has no {' or '.join(axes)} {level!r}{nearest(level, known)}")


def _check(node: ast.expr, levels: Levels, where: str) -> None:
    """A condition: a comparison, a yes-or-no axis, or such joined by and, or, not."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                _check(part, levels, where)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _check(part, levels, where)
        case ast.Compare(left=left, ops=ops, comparators=others) if _is_comparison(ops, others):
            for one, other in itertools.pairwise((left, *others)):
                _check_pair([*_operands(one, where), *_operands(other, where)], levels, where)
        case ast.Name(id=name):
            _check_axis(name, levels)
            if not all(isinstance(level, bool) for level in levels[name]):
                raise ConfigError(f"where={where!r}: {name} is no condition; compare it, as in {name} == 'level'")
        case _:
            raise _not_allowed(node, where)


def _operands(node: ast.expr, where: str) -> list[ast.Name | ast.Constant]:
    """The axes and constants on one side of a comparison."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [operand for part in parts for operand in _operands(part, where)]
        case ast.Name() | ast.Constant(value=str() | bool() | int()):
            return [node]
    raise _not_allowed(node, where)


def _check_pair(operands: Sequence[ast.Name | ast.Constant], levels: Levels, where: str) -> None:
    axes = [operand.id for operand in operands if isinstance(operand, ast.Name)]
    for axis in axes:
        _check_axis(axis, levels)
    if not axes:
        raise ConfigError(f"where={where!r} compares no axis{nearest('', levels)}")
    for operand in operands:
        if isinstance(operand, ast.Constant):
            _check_level(operand.value, axes, levels)


def _not_allowed(node: ast.expr, where: str) -> ConfigError:
    return ConfigError(
        f"where={where!r}: {ast.unparse(node)!r} is not allowed; use axes, quoted levels, ==, !=, in (…), and, or, not"
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
