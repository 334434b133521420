"""Sums in a variable: what is added to them, where they begin, and whether they are used every so many steps only."""

from typing import NamedTuple

import libcst as cst

from pinprof.fix.kinds import is_host_number
from pinprof.fix.names import Uses, check_is_not_shown, comes_after, is_seldom
from pinprof.fix.rewrite import NotSafe, NotThisForm
from pinprof.fix.source import Loop, SourceFile

APART: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.DivideAssign: cst.Divide,
    cst.MultiplyAssign: cst.Multiply,
}
"""What is done to a sum after its loop."""


class Sum(NamedTuple):
    """A statement that adds to a sum."""

    total: cst.Name
    value: cst.BaseExpression
    """What is added."""
    node: cst.CSTNode
    """The statement that adds."""


def sum_at(source: SourceFile, read: cst.CSTNode) -> Sum:
    """Return the sum to which a number is added in its statement: `total += x` or `total = total + x`."""
    small = source.statement(read).body[0]
    if isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
        if isinstance(small.target, cst.Name):
            return Sum(small.target, small.value, small)
        raise NotSafe(f"{source.code(small.target)} is not a variable of the function: other code may read it")
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        total, value = small.targets[0].target, small.value
        is_sum = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add) and not value.lpar
        if isinstance(value, cst.BinaryOperation) and is_sum and source.code(value.left) == source.code(total):
            return Sum(total, value.right, small)
    raise NotThisForm("the number does not go into a sum in a variable")


def check_sum(source: SourceFile, uses: Uses, added: Sum, loop: Loop) -> None:
    """Raise Refusal unless a sum begins at 0, and is used every so many steps only."""
    name = source.code(added.total)
    _check_starts(source, uses, added, loop)
    for statement in uses.changed:
        if statement is added.node:
            continue
        if not is_seldom(source, statement, loop):
            raise NotSafe(f"{name} is also changed in line {source.line(statement)}")
        source.statement(statement)
        if type(statement.operator) not in APART or not is_host_number(source, statement.value):
            raise NotSafe(f"{name} is changed in line {source.line(statement)} by what may be a tensor")
    for node in uses.read:
        check_is_not_shown(source, node)
        if not source.is_within(node, added.node) and not is_seldom(source, node, loop):
            raise NotSafe(f"{name} is read in each step, in line {source.line(node)}: read it every N steps")


def _check_starts(source: SourceFile, uses: Uses, added: Sum, loop: Loop) -> None:
    name = source.code(added.total)
    starts = [(node, value) for node, value in uses.set if not source.is_within(node, added.node)]
    for node, value in starts:
        if source.code(value) not in {"0", "0.0", "0."}:
            raise NotSafe(f"{name} is also set in line {source.line(node)}")
        if source.is_within(node, loop.body) and not is_seldom(source, node, loop):
            raise NotSafe(f"{name} starts again in each step, in line {source.line(node)}")
    if not any(source.line(node) < source.line(loop) for node, _ in starts):
        raise NotSafe(f"{name} does not begin at 0 before the loop, in the same function")


def check_factor(source: SourceFile, number: cst.BaseExpression, value: cst.BaseExpression) -> None:
    """Raise Refusal unless what is added is the number, alone, or times or divided by a number of the host."""
    if value is number:
        return
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply | cst.Divide):
        times = isinstance(value.operator, cst.Multiply)
        other = value.right if value.left is number else value.left if times and value.right is number else None
        if other is not None and is_host_number(source, other):
            return
        if other is not None:
            raise NotSafe(f"{source.code(other)} may not be a number on the host")
    raise NotSafe("what is added to the sum is more than the number, or that times another one")


def is_divided(value: cst.BaseExpression) -> bool:
    """Return whether a number is divided: on a GPU torch multiplies by the reciprocal, which rounds otherwise."""
    return isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide)


def is_added_before(source: SourceFile, node: cst.CSTNode, added: Sum, loop: Loop, uses: Uses) -> bool:
    """Return whether each step adds to a sum before it is read there, without another beginning between."""
    line = source.statement(added.node)
    if source.parent(line) is not loop.body or not comes_after(source, node, line):
        return False
    starts = [each for each, _ in uses.set if source.is_within(each, loop) and not source.is_within(each, added.node)]
    return all(source.line(start) > source.line(node) for start in starts)


def check_has_torch(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise Refusal where a file cannot ask whether something is a tensor yet."""
    for each in source.module.body:
        for small in each.body if isinstance(each, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Import) and any(
                name.evaluated_name == "torch" and name.asname is None for name in small.names
            ):
                return
    raise NotSafe(f"nothing may have been added in line {source.line(node)}, and the file does not import torch to ask")
