"""Conditions on a number of steps, `step % 100 == 0`, which may come before another one."""

import libcst as cst

from pinprof.fix.bindings import binds, bound_to, uses_in
from pinprof.fix.names import follows, is_grown, is_remainder, is_target, line_of
from pinprof.fix.rewrite import NotSafe, walk
from pinprof.fix.source import SourceFile

COUNTED = (
    *(cst.Name, cst.Integer, cst.BinaryOperation, cst.Add, cst.Subtract, cst.Modulo),
    *(cst.LeftParen, cst.RightParen, cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.Newline),
)
"""What conditions on a number of steps are made of."""
NO_NUMBERS = {"None", "True", "False"}


def is_counted(test: cst.BaseExpression) -> bool:
    """Return whether a condition is about a remainder of variables of the host."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        left: cst.BaseExpression = test.expression
        rest: list[cst.BaseExpression] = []
    elif isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        left, rest = test.left, [test.comparisons[0].comparator]
        if not isinstance(test.comparisons[0].operator, cst.Equal):
            return False
    else:
        return False
    if not is_remainder(left):
        return False
    divisor = cst.ensure_type(left, cst.BinaryOperation).right
    if not (isinstance(divisor, cst.Integer) and divisor.evaluated_value):
        return False
    parts = [part for each in (left, *rest) for part in walk(each)]
    return all(isinstance(part, COUNTED) for part in parts)


def check_are_numbers(source: SourceFile, test: cst.BaseExpression) -> None:
    """Raise Refusal unless each variable of a condition is a number whenever it is asked, whatever came before."""
    for node in walk(test):
        if isinstance(node, cst.Name) and not (_is_of_loop(source, node) or _is_always_set(source, node)):
            raise NotSafe(f"{node.value} may not be a number each time: the first condition may guard it")


def _is_of_loop(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a loop around a node counts with it: `for step in ...`, with no other name for it inside."""
    scope = source.scope(node)
    for each in source.around(node):
        if each is scope:
            return False
        if isinstance(each, cst.For) and binds(each.target, node.value):
            return not any(_is_set(source, use) for use in uses_in(source, each.body, node.value))
    return False


def _is_always_set(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a variable is an argument, or is set before; and only ever to what may be a number."""
    for scope in dict.fromkeys((source.scope(node), source.module)):
        params = list(walk(scope.params)) if isinstance(scope, cst.FunctionDef) else []
        if any(isinstance(each, cst.Param) and _may_be_none(source, each, node.value) for each in params):
            return False
        defaults = [each.default for each in params if isinstance(each, cst.Param) and each.name.value == node.value]
        uses = [each for each in uses_in(source, scope, node.value) if source.scope(each) is scope]
        set_there = [each for each in uses if _is_set(source, each)]
        if not (defaults or set_there):
            continue
        given = [bound_to(source, each) for each in set_there if not is_grown(source, each)]
        values = [*(each for each in defaults if each is not None), *(each[0] for each in given if each is not None)]
        is_first = bool(defaults) or any(_comes_first(source, each, node, scope) for each in set_there)
        return is_first and all(given) and not any(_is_no_number(source, each) for each in values)
    return False


def _may_be_none(source: SourceFile, param: cst.Param, name: str) -> bool:
    """Return whether an argument of a name says that it may be None: `step: int | None`."""
    said = source.code(param.annotation.annotation) if param.annotation else ""
    return param.name.value == name and ("None" in said or "Optional" in said)


def _is_set(source: SourceFile, node: cst.Name) -> bool:
    parent = source.parent(node)
    return is_grown(source, node) or is_target(source, node) or isinstance(parent, cst.NameItem)


def _comes_first(source: SourceFile, first: cst.Name, node: cst.Name, scope: cst.CSTNode) -> bool:
    """Return whether a variable is set in a line that always runs before a node, or in the module."""
    if is_grown(source, first):
        return False
    if scope is not source.scope(node):
        line = line_of(source, first)
        return line is not None and source.parent(line) is scope
    return follows(source, node, first)


def _is_no_number(source: SourceFile, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.IfExp):
        return _is_no_number(source, value.body) or _is_no_number(source, value.orelse)
    return isinstance(value, cst.BaseString) or source.code(value) in NO_NUMBERS
