"""Keep sums on the GPU whose numbers each step reads and only every Nth step uses."""

from typing import Literal, TypeAlias

import libcst as cst
import libcst.matchers as m
from libcst.helpers import parse_template_expression as expression

from pinprof.fix.core.facts import Work
from pinprof.fix.core.numbers import Read, is_count, is_host_number, is_real
from pinprof.fix.core.read_later import HeldNumber, ReadLater
from pinprof.fix.core.rewrite import NotSafe, PlaceChange, Waits, atom, parts_of, wrapped
from pinprof.fix.core.source import SourceFile, comes_after, is_seldom
from pinprof.fix.core.uses import check_is_builtin, check_is_not_shown

TOTAL, LEFT, VALUE = (m.SaveMatchedNode(m.DoNotCare(), name) for name in ("total", "left", "value"))
ADDS = m.AugAssign(TOTAL, m.AddAssign(), VALUE) | m.Assign(
    [m.AssignTarget(TOTAL)], m.BinaryOperation(LEFT, m.Add(), VALUE, lpar=[])
)
"""`total += x`, `total = total + x`."""
ZEROS = {"0", "0.0", "0."}
NO_FLOAT64 = ("mps", "directml")
"""Words of programs that may run on a GPU without float64."""
REAL_FORMATS = "eEfFgG%"
"""The last characters of formats that show 0 and 0.0 alike."""
NumberKind: TypeAlias = Literal["float", "int"]


class SumOnGpu(ReadLater):
    """Keeps a sum of numbers on the GPU, in float64 like Python, and reads it where it is used."""

    guide = (
        (
            "a sum (`total += loss.item()`) that is used every N steps stays on the GPU, in float64 as Python's",
            "equal; rounding where the number is divided, for a GPU multiplies by the reciprocal",
        ),
    )
    INVALID = (
        """
        import torch.nn.functional as F

        total = 0.0
        for step, (x, y) in enumerate(loader):
            total += F.mse_loss(model(x), y).item()  #? PIN201
            if step % 100 == 99:
                print(total / 100)
                total = 0.0
        # becomes
        import torch.nn.functional as F

        total = 0.0
        for step, (x, y) in enumerate(loader):
            total += F.mse_loss(model(x), y).detach().double()
            if step % 100 == 99:
                print(float(total) / 100)
                total = 0.0
        """,
        """
        right = 0
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()  #? PIN201
        print(right)
        # becomes
        right = 0
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum()
        print(int(right))
        """,
    )
    VALID = (
        """
        total = 0.0
        for x in loader:
            total += x.mean().item()  #? PIN201
            print(total)
        # stays: total is read in each step, in line 4: read it every N steps
        """,
        """
        for x in loader:
            self.total += x.mean().item()  #? PIN201
        # stays: self.total is not a variable of the function: other code may read it
        """,
    )

    def variable(self, statement: cst.BaseSmallStatement, read: Read) -> cst.BaseExpression | None:
        """Return the variable of the sum to which the number is added."""
        del read
        parts = parts_of(statement, ADDS)
        is_sum = parts is not None and ("left" not in parts or parts["left"].deep_equals(parts["total"]))
        return parts["total"] if parts is not None and is_sum else None

    def read_later(self, source: SourceFile, held: HeldNumber, work: Work) -> PlaceChange:
        """Return the change that keeps a sum on the GPU; a part, if each step still waits elsewhere. Raises Refusal."""
        read, uses = held.read, held.uses
        value = (parts_of(held.statement, ADDS) or {})["value"]
        waiting = [node for node in uses.read if not source.is_within(node, held.statement)]
        _check_sum(source, held, waiting)
        with work.condition():
            _check_value(source, read.node, value)
        with work.condition():
            _check_is_known(source, read)
        is_divided = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide)
        kind = _kind(source, held, is_divided=is_divided)
        check_is_builtin(source, kind)
        with work.condition():
            _check_gpu(source, read, kind, work)
        with work.condition():
            if kind == "float":
                _check_zero_is_not_shown(source, held, waiting)
        gpu_value = expression("{x}.detach().double()" if kind == "float" else "{x}", x=atom(read.tensor))
        gpu_value = gpu_value.with_changes(lpar=read.node.lpar, rpar=read.node.rpar)
        rewrites = [source.replacement(read.node, "stays on the GPU", gpu_value)]
        later = f"{kind}({{x}})"
        rewrites += [source.rewrite(node, "read here", lambda use: wrapped(later, use)) for node in waiting]
        other_starts = tuple(node for node, _ in uses.set if not source.is_within(node, held.statement))
        waits = Waits(source.file, (read.node,), tuple(waiting), other_starts)
        is_part = _still_waits(source, held, waiting) and work.facts.waits_in_a_loop(held.place)
        return PlaceChange(rewrites, waits, is_part, "rounding" if is_divided else "equal")


def _check_sum(source: SourceFile, held: HeldNumber, waiting: list[cst.Name]) -> None:
    """Raise Refusal unless a sum is a number that begins at 0, and is used every N steps only."""
    name, loop = held.name.value, held.loop
    starts = [(node, value) for node, value in held.uses.set if not source.is_within(node, held.statement)]
    for node, value in starts:
        if source.code(value) not in ZEROS:
            raise NotSafe(f"{name} is also set in line {source.line(node)}")
        if source.is_within(node, loop.body) and not is_seldom(source, node, loop):
            raise NotSafe(f"{name} starts again in each step, in line {source.line(node)}")
    if not any(source.line(node) < source.line(loop) for node, _ in starts):
        raise NotSafe(f"{name} does not begin at 0 before the loop, in the same function")
    for change in held.uses.changed:
        if change is not held.statement:
            raise NotSafe(f"{name} is also changed in line {source.line(change)}")
    for node in waiting:
        parent = source.parent(node)
        if isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node):
            raise NotSafe(f"{name} is not a number in line {source.line(node)}")
        check_is_not_shown(source, node)
        if not is_seldom(source, node, loop):
            raise NotSafe(f"{name} is read in each step, in line {source.line(node)}: read it every N steps")


def _check_value(source: SourceFile, number: cst.BaseExpression, value: cst.BaseExpression) -> None:
    """Raise Refusal unless what is added is the number, alone, or times or divided by a number of the host."""
    if value is number:
        return
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply | cst.Divide):
        is_product = isinstance(value.operator, cst.Multiply)
        other = value.right if value.left is number else value.left if is_product and value.right is number else None
        if other is not None and is_host_number(source, other):
            return
        if other is not None:
            raise NotSafe(f"{source.code(other)} may not be a number on the host")
    raise NotSafe("what is added to the sum is more than the number, or that times another one")


def _check_is_known(source: SourceFile, read: Read) -> None:
    if not (is_real(source, read.tensor, read.node) or is_count(source, read.tensor)):
        raise NotSafe(f"the source does not show whether {source.code(read.tensor)} is a whole number")


def _check_gpu(source: SourceFile, read: Read, kind: NumberKind, work: Work) -> None:
    """Raise Refusal where a sum may not stay on the GPU as Python would make it."""
    if work.facts.gpus > 1:
        raise NotSafe("the process uses several GPUs, and a sum must stay on one")
    if kind == "float" and source.mentions(NO_FLOAT64):
        raise NotSafe("the program may run on Apple's GPUs or others, which have no float64 to sum in")
    for outer in source.ancestors(read.node):
        if isinstance(outer, cst.With) and any("inference_mode" in source.code(item) for item in outer.items):
            raise NotSafe(f"line {source.line(outer)} turns inference mode on and off, and the sum may outlive it")


def _kind(source: SourceFile, held: HeldNumber, *, is_divided: bool) -> NumberKind:
    """Return of what kind the sum is in Python: real numbers, unless it is a count. Raises Refusal."""
    is_whole = is_count(source, held.read.tensor)
    if held.read.function == "int" and not is_whole:
        raise NotSafe("int() cuts the number off")
    if not is_whole or is_divided or held.read.function == "float":
        return "float"
    starts = {isinstance(value, cst.Float) for _, value in held.uses.set if isinstance(value, cst.Integer | cst.Float)}
    if len(starts) > 1:
        raise NotSafe(f"{held.name.value} begins at 0 and at 0.0")
    return "float" if True in starts else "int"


def _check_zero_is_not_shown(source: SourceFile, held: HeldNumber, waiting: list[cst.Name]) -> None:
    """Raise Refusal where a sum that begins at 0 may be seen before anything was added: 0 would become 0.0."""
    if not any(isinstance(value, cst.Integer) for _, value in held.uses.set):
        return
    for node in waiting:
        parent = source.parent(node)
        is_divided = m.matches(parent or node, m.BinaryOperation(m.Name(node.value), m.Divide()))
        if not (is_divided or _has_real_format(parent) or _is_added_before(source, node, held)):
            where = f"line {source.line(node)} would show 0.0 if nothing was added"
            raise NotSafe(f"{held.name.value} begins at the whole number 0, and {where}")


def _has_real_format(node: cst.CSTNode | None) -> bool:
    """Return whether an f-string shows what is in a part of it as a real number: `{x:.3f}`."""
    last = node.format_spec[-1] if isinstance(node, cst.FormattedStringExpression) and node.format_spec else None
    return isinstance(last, cst.FormattedStringText) and last.value[-1] in REAL_FORMATS


def _is_added_before(source: SourceFile, node: cst.CSTNode, held: HeldNumber) -> bool:
    """Return whether each step adds to a sum before it is read there, without another beginning between."""
    line = source.statement(held.statement)
    if source.parent(line) is not held.loop.body or not comes_after(source, node, line):
        return False
    starts = [name for name, _ in held.uses.set if source.is_within(name, held.loop)]
    return all(source.line(start) > source.line(node) for start in starts if not source.is_within(start, line))


def _still_waits(source: SourceFile, held: HeldNumber, waiting: list[cst.Name]) -> bool:
    """Return whether an outer loop, whose pass may be the step, reads the sum in each pass."""
    outer = source.loop(held.loop)
    return outer is not None and any(
        source.is_within(node, outer.body) and not is_seldom(source, node, outer) for node in waiting
    )
