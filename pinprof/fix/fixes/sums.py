"""Sums of numbers of the GPU that are read in each step and used every N steps: they stay on the GPU."""

from typing import Literal, NamedTuple, TypeAlias

import libcst as cst
import libcst.matchers as m
from libcst.helpers import parse_template_expression as expression

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.numbers import (
    Read,
    check_is_tensor,
    has_real_format,
    is_count,
    is_host_number,
    is_real,
    other_form,
    read_at,
    statement_of,
)
from pinprof.fix.core.rewrite import Change, NotSafe, Waits, atom, parts_of
from pinprof.fix.core.source import Loop, SourceFile, comes_after, is_seldom, loop_of_read
from pinprof.fix.core.uses import Uses, check_is_builtin, check_is_local, check_is_not_shown, local_uses
from pinprof.fix.core.waits import check_is_of_one_mode, check_may_come_later
from pinprof.trace.lines import Place

TOTAL, LEFT, VALUE = (m.SaveMatchedNode(m.DoNotCare(), name) for name in ("total", "left", "value"))
SUM = m.BinaryOperation(LEFT, m.Add(), VALUE, lpar=[])
ADDS = m.AugAssign(TOTAL, m.AddAssign(), VALUE) | m.Assign([m.AssignTarget(TOTAL)], SUM)
"""`total += x`, `total = total + x`."""
Kind: TypeAlias = Literal["float", "int"]
LATER = "the number stays on the GPU until it is used"
SAFE_LATER = (
    "Nothing else relies on the removed wait. The program reads the same Python number later; the GPU sums in "
    "float64, as Python does. A list keeps 512 bytes of GPU memory per number until it is read."
)
NO_FLOAT64 = ("mps", "directml")
"""Words of programs that may run on such a GPU."""


class Sum(NamedTuple):
    """A statement that adds to a sum."""

    total: cst.Name
    value: cst.BaseExpression
    """What is added."""
    node: cst.CSTNode
    """The statement that adds."""


def sum_of(source: SourceFile, small: cst.BaseSmallStatement) -> Sum | None:
    """Return the sum to which a statement adds: `total += x` or `total = total + x`; None for another one."""
    found = parts_of(small, ADDS)
    if found is None or ("left" in found and source.code(found["left"]) != source.code(found["total"])):
        return None
    if not isinstance(found["total"], cst.Name):
        raise NotSafe(f"{source.code(found['total'])} is not a variable of the function: other code may read it")
    return Sum(found["total"], found["value"], small)


class SumOnGpu(LineFix):
    """Keeps a sum of numbers on the GPU, in float64 as Python's, and reads it where it is used."""

    rules = ("PIN201", "PIN203")
    what = LATER
    safe_if = SAFE_LATER
    guide = (
        (
            "a sum (`total += loss.item()`) that is used every N steps stays on the GPU, in float64 as Python's",
            "equal; rounding where the number is divided, for a GPU multiplies by the reciprocal",
        ),
    )
    INVALID = (
        (
            """
            import torch.nn.functional as F

            total = 0.0
            for step, (x, y) in enumerate(loader):
                total += F.mse_loss(model(x), y).item()  #? PIN201
                if step % 100 == 99:
                    print(total / 100)
                    total = 0.0
            """,
            """
            import torch.nn.functional as F

            total = 0.0
            for step, (x, y) in enumerate(loader):
                total += F.mse_loss(model(x), y).detach().double()
                if step % 100 == 99:
                    print(float(total) / 100)
                    total = 0.0
            """,
        ),
        (
            """
            right = 0
            for x, y in loader:
                right += (model(x).argmax(1) == y).sum().item()  #? PIN201
            print(right)
            """,
            """
            right = 0
            for x, y in loader:
                right += (model(x).argmax(1) == y).sum()
            print(int(right))
            """,
        ),
    )
    VALID = (
        (
            """
            total = 0.0
            for x in loader:
                total += x.mean().item()  #? PIN201
                print(total)
            """,
            "total is read in each step, in line 4: read it every N steps",
        ),
        (
            """
            for x in loader:
                self.total += x.mean().item()  #? PIN201
            """,
            "self.total is not a variable of the function: other code may read it",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> Change:
        """Return the change that keeps a sum on the GPU; a part, if each step still waits elsewhere. Raises Refusal."""
        change = _kept_on_gpu(source, place.line or 0, work)
        with work.condition():
            check_is_of_one_gpu(work)
        return change._replace(part=change.part and work.facts.waits_in_a_loop(place))


def check_is_of_one_gpu(work: Work) -> None:
    """Raise NotSafe where a process uses several GPUs."""
    if work.facts.gpus > 1:
        raise NotSafe("the process uses several GPUs, and a sum must stay on one")


def _kept_on_gpu(source: SourceFile, line: int, work: Work) -> Change:
    read = read_at(source, line)
    added = sum_of(source, statement_of(source, read))
    if added is None:
        raise other_form(source, read)
    loop = loop_of_read(source, added.node, "makes the sum")
    with work.condition():
        check_is_local(source, added.total)
    uses = local_uses(source, added.total)
    _check_is_number(source, uses)
    check_sum(source, uses, added, loop)
    with work.condition():
        check_may_come_later(source, read.node, loop)
        check_is_of_one_mode(source, read.node)
    with work.condition():
        check_factor(source, read.node, added.value)
    with work.condition():
        _check_kind(source, read)
    kind = _kind(source, read, added, uses)
    check_is_builtin(source, kind)
    with work.condition():
        check_has_float64(source, kind)
    waiting = [node for node in uses.read if not source.is_within(node, added.node)]
    with work.condition():
        for node in waiting:
            if not is_added_before(source, node, added, loop, uses):
                _check_read(source, node, kind, uses)
    rewrites = [source.anew(read.node, "stays on the GPU", _on_gpu(read, kind))]
    number = f"{kind}({{x}})"
    rewrites += [source.rewrite(node, "read here", lambda use: expression(number, x=use)) for node in waiting]
    outer = source.loop(loop)
    still = outer is not None and any(
        source.is_within(node, outer.body) and not is_seldom(source, node, outer) for node in waiting
    )
    lost = tuple(node for node, _ in uses.set if not source.is_within(node, added.node))
    waits = Waits(source.file, (read.node,), tuple(waiting), lost)
    return Change(rewrites, waits, still, "rounding" if is_divided(added.value) else "equal")


def check_has_float64(source: SourceFile, kind: Kind) -> None:
    """Raise Refusal where a program may run on a GPU that cannot sum real numbers as Python does."""
    if kind == "float" and source.mentions(NO_FLOAT64):
        raise NotSafe("the program may run on Apple's GPUs or others, which have no float64 to sum in")


def _check_is_number(source: SourceFile, uses: Uses) -> None:
    """Raise Refusal where a sum is more than a number: it is called, or has attributes."""
    for node in uses.read:
        parent = source.parent(node)
        if isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node):
            raise NotSafe(f"{source.code(node)} is not a number in line {source.line(node)}")


def _check_kind(source: SourceFile, read: Read) -> None:
    """Raise Refusal where the source does not show what the sum is of."""
    check_is_tensor(source, read)
    tensor = read.tensor
    if not (is_real(source, tensor, read.node) or is_count(source, tensor)):
        raise NotSafe(f"the source does not show whether {source.code(tensor)} is a whole number")


def _kind(source: SourceFile, read: Read, added: Sum, uses: Uses) -> Kind:
    """Return what the sum is of, as Python has it: real numbers, unless it is a count. Raises Refusal."""
    is_whole = is_count(source, read.tensor)
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
    text = "{x}.detach().double()" if kind == "float" else "{x}"  # a count has no gradients
    made = expression(text, x=atom(read.tensor))
    return made.with_changes(lpar=read.node.lpar, rpar=read.node.rpar)


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


def check_sum(source: SourceFile, uses: Uses, added: Sum, loop: Loop) -> None:
    """Raise Refusal unless a sum begins at 0, and is used every so many steps only."""
    name = source.code(added.total)
    _check_starts(source, uses, added, loop)
    for statement in uses.changed:
        if statement is not added.node:
            raise NotSafe(f"{name} is also changed in line {source.line(statement)}")
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
    starts = [name for name, _ in uses.set if source.is_within(name, loop) and not source.is_within(name, added.node)]
    return all(source.line(start) > source.line(node) for start in starts)
