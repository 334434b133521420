"""Sums of numbers of the GPU that are read in each step, and used every so many: they stay on the GPU."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import libcst as cst

from pinprof.fix.kinds import is_count, is_real, is_tensor
from pinprof.fix.names import (
    Uses,
    check_is_builtin,
    comes_after,
    is_seldom,
    uses_of,
)
from pinprof.fix.reads import Read, check_is_tensor, read_at
from pinprof.fix.rewrite import Change, NotSafe, Rewrite, Waits, atom, call_of
from pinprof.fix.source import Loop, SourceFile
from pinprof.fix.texts import has_real_format
from pinprof.fix.totals import APART, Sum, check_factor, check_sum, is_added_before, is_divided, sum_at
from pinprof.fix.waits import check_is_of_one_mode, check_may_come_later, loop_of_read

Kind: TypeAlias = Literal["float", "int"]
NO_FLOAT64 = ("mps", "directml")
"""Words of programs that may run on such a GPU."""


def kept_on_gpu(source: SourceFile, line: int) -> Change:
    """Return the change that keeps a sum on the GPU; a part, if each step still waits elsewhere. Raises Refusal."""
    read = read_at(source, line)
    added = sum_at(source, read.node)
    loop = loop_of_read(source, added.node, "makes the sum")
    uses = uses_of(source, added.total)
    _check_is_number(source, uses)
    check_sum(source, uses, added, loop)
    check_may_come_later(source, read.node, loop)
    check_is_of_one_mode(source, read.node)
    kind = _kind(source, read, added, uses)
    check_is_builtin(source, kind)
    if kind == "float":
        check_has_float64(source)
    changed = [each for each in uses.changed if each is not added.node]
    apart = [each for each in changed if not _is_apart_already(source, each, added, changed)]
    if kind == "int":
        _check_shares(source, added, changed, uses)
    elif any(isinstance(each.operator, cst.MultiplyAssign) for each in apart) and _begins_whole(source, uses):
        raise NotSafe(f"{source.code(added.total)} begins at the whole number 0, which times a number is a whole one")
    rewrites = [source.anew(read.node, "stays on the GPU", _on_gpu(read, kind))]
    waiting = [node for node in uses.read if _waits(source, node, added, apart)]
    for node in waiting:
        if not is_added_before(source, node, added, loop, uses):
            _check_read(source, node, kind, uses)
        rewrites.append(source.rewrite(node, "read here", lambda each: call_of(f"{kind}(X)", X=each)))
    rewrites += [source.rewrite(each, "read here", lambda node: _apart(node, kind)) for each in apart]
    outer, read_in = source.loop(loop), [*waiting, *apart]
    still = outer is not None and any(
        source.is_within(node, outer.body) and not is_seldom(source, node, outer) for node in read_in
    )
    lost = tuple(node for node, _ in uses.set if not source.is_within(node, added.node))
    early = None if apart else lambda line: _read_first(source, line, kind, added, loop, uses)
    waits = Waits(source.file, (read.node,), (*waiting, *map(source.statement, apart)), lost, early)
    return Change(rewrites, waits, still, "rounding" if is_divided(added.value) else "equal")


def check_has_float64(source: SourceFile) -> None:
    """Raise Refusal where a program may run on a GPU that cannot sum as Python does."""
    if source.mentions(NO_FLOAT64):
        raise NotSafe("the program may run on Apple's GPUs or others, which have no float64 to sum in")


def _read_first(
    source: SourceFile, line: cst.SimpleStatementLine, kind: Kind, added: Sum, loop: Loop, uses: Uses
) -> Rewrite:
    """Return the rewrite that reads a sum before a line. Raises Refusal where it may be no sum there."""
    starts = [source.statement(node) for node, _ in uses.set if not source.is_within(node, added.node)]
    if source.scope(line) is not source.scope(added.node) or not any(
        comes_after(source, line, each) for each in starts
    ):
        raise NotSafe("the sum is not known there")
    if kind == "float" and _begins_whole(source, uses) and not is_added_before(source, line, added, loop, uses):
        raise NotSafe("the sum may begin there at a whole number")
    total = source.code(added.total)

    def preceded(made: cst.CSTNode) -> "cst.FlattenSentinel[cst.BaseStatement]":
        number = cst.parse_statement(f"{total} = {kind}({total})")
        return cst.FlattenSentinel([number, cst.ensure_type(made, cst.SimpleStatementLine)])

    return source.rewrite(line, f"{total} is read before it", preceded)


def _check_is_number(source: SourceFile, uses: Uses) -> None:
    """Raise Refusal where a sum is more than a number: it is called, or has attributes."""
    for node in uses.read:
        parent = source.parent(node)
        if isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node):
            raise NotSafe(f"{source.code(node)} is not a number in line {source.line(node)}")


def _waits(source: SourceFile, node: cst.BaseExpression, added: Sum, apart: Sequence[cst.AugAssign]) -> bool:
    """Return whether a sum may be on the GPU where it is read: not behind `total /= n`, which makes it a number."""
    if source.is_within(node, added.node):
        return False  # `total = total + ...`
    return not _is_apart_already(source, node, added, apart)


def _is_apart_already(source: SourceFile, node: cst.CSTNode, added: Sum, apart: Sequence[cst.AugAssign]) -> bool:
    """Return whether a node always follows a line that makes a number of the sum, with nothing added between."""
    lines = [source.statement(each) for each in apart if each is not node]
    return any(comes_after(source, node, line) and not comes_after(source, added.node, line) for line in lines)


def _kind(source: SourceFile, read: Read, added: Sum, uses: Uses) -> Kind:
    """Return what the sum is of, as Python has it. Raises Refusal where the source does not show it."""
    check_factor(source, read.node, added.value)
    tensor = check_is_tensor(source, read)
    if read.function != "item" and not is_tensor(source, tensor, read.node):
        raise NotSafe(f"{source.code(tensor)} may be no tensor")
    is_whole = not is_real(source, tensor, read.node)
    if is_whole and not is_count(source, tensor):
        raise NotSafe(f"the source does not show whether {source.code(tensor)} is a whole number")
    if read.function == "int" and not is_whole:
        raise NotSafe("int() cuts the number off")
    if not is_whole or is_divided(added.value) or read.function == "float":
        return "float"
    starts = {isinstance(value, cst.Float) for _, value in uses.set if _is_literal(value)}
    if len(starts) > 1:
        raise NotSafe(f"{source.code(added.total)} begins at 0 and at 0.0")
    return "float" if True in starts else "int"


def _on_gpu(read: Read, kind: Kind) -> cst.BaseExpression:
    """Return the number as a tensor, of the precision that Python's have."""
    text = "X.detach().double()" if kind == "float" else "X"  # a count has no gradients
    made = call_of(text, X=atom(read.tensor))
    return made.with_changes(lpar=read.node.lpar, rpar=read.node.rpar)


def _check_shares(source: SourceFile, added: Sum, apart: Sequence[cst.AugAssign], uses: Uses) -> None:
    """Raise Refusal unless a count that becomes a share begins anew before more is added to it, or is read as one."""
    starts = [source.statement(node) for node, value in uses.set if _is_literal(value)]
    for each in apart:
        line = source.statement(each)
        between = [
            start
            for start in starts
            if source.parent(start) is source.parent(line)
            and comes_after(source, line, start)
            and comes_after(source, added.node, start)
            and not comes_after(source, added.node, line)
        ]
        reads = [node for node in uses.read if not source.is_within(node, added.node)]
        is_sure = between and all(comes_after(source, node, between[-1]) for node in reads)
        if isinstance(each.operator, cst.DivideAssign) and not is_sure:
            raise NotSafe(f"{source.code(added.total)} is a whole number, and a share of one later")


def _check_read(source: SourceFile, node: cst.BaseExpression, kind: Kind, uses: Uses) -> None:
    """Raise Refusal where a sum of real numbers may be seen before anything was added: 0 would become 0.0."""
    if kind == "int" or not _begins_whole(source, uses):
        return
    parent = source.parent(node)
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Divide) and parent.left is node:
        return
    if has_real_format(parent):
        return
    where = f"line {source.line(node)} would show 0.0 if nothing was added"
    raise NotSafe(f"{source.code(node)} begins at the whole number 0, and {where}")


def _begins_whole(source: SourceFile, uses: Uses) -> bool:
    return any(source.code(value) == "0" for _, value in uses.set if _is_literal(value))


def _is_literal(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Integer | cst.Float)


def _apart(node: cst.CSTNode, kind: Kind) -> cst.CSTNode:
    """Return `total = float(total) / n` for `total /= n`."""
    changed = cst.ensure_type(node, cst.AugAssign)
    name = changed.target
    value = changed.value
    if isinstance(value, cst.BinaryOperation | cst.IfExp | cst.BooleanOperation | cst.Comparison) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    sum_of = cst.BinaryOperation(call_of(f"{kind}(X)", X=name), APART[type(changed.operator)](), value)
    return cst.Assign([cst.AssignTarget(name)], sum_of, semicolon=changed.semicolon)
