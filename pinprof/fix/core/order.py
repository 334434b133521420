"""Which lines run in each step of a loop, which only every N steps, and which always run behind another one."""

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.rewrite import NotSafe
from pinprof.fix.core.source import Loop, SourceFile

REMAINDER = m.BinaryOperation(operator=m.Modulo())
ONE_REMAINDER = m.UnaryOperation(m.Not(), REMAINDER) | m.Comparison(REMAINDER, [m.ComparisonTarget(m.Equal())])


def comes_after(source: SourceFile, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Return whether a node is in a statement that follows another one in the same block: never before it."""
    block = source.parent(statement)
    if not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    place = next(number for number, each in enumerate(block.body) if each is statement)
    later = block.body[place + 1 :]
    return any(each is outer for outer in (node, *source.around(node)) for each in later)


def line_of(source: SourceFile, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """Return the line of simple statements around a node; None in the head of a compound one."""
    return next((each for each in source.around(node) if isinstance(each, cst.SimpleStatementLine)), None)


def follows(source: SourceFile, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Return whether a node always runs behind the line of another one in the same block."""
    line = line_of(source, other)
    return line is not None and comes_after(source, node, line)


def is_seldom(source: SourceFile, node: cst.CSTNode, loop: Loop) -> bool:
    """Return whether a node runs outside of a loop, or in it only every so many times: `if step % 100 == 0`."""
    inner = node
    for each in source.around(node):
        if each is loop:
            return inner is not loop.body and not (isinstance(loop, cst.While) and inner is loop.test)
        if isinstance(each, cst.If) and inner is each.body and asks_remainder(each.test):
            return True
        inner = each
    return True


def asks_remainder(test: cst.BaseExpression) -> bool:
    """Return whether a condition holds only for one remainder: `step % 100 == 0`, `not step % 100`."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return asks_remainder(test.left) or asks_remainder(test.right)
    return m.matches(test, ONE_REMAINDER)


def is_remainder(node: cst.CSTNode) -> bool:
    """Return whether an expression is `a % b`."""
    return m.matches(node, REMAINDER)


def loop_of_read(source: SourceFile, node: cst.CSTNode, does: str) -> Loop:
    """Return the loop that reaches a node in each step; `does` says what it does there.

    Raises Refusal where no loop of the same function does, or only every few steps.
    """
    loop = source.loop(node)
    if loop is None:
        raise NotSafe(f"no loop of the same function {does}")
    if is_seldom(source, node, loop):
        raise NotSafe("the program already reads it only every few steps")
    return loop
