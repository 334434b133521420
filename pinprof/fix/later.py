"""Numbers that each step reads and only some steps use: they are read where they are used."""

import libcst as cst

from pinprof.fix.calls import method
from pinprof.fix.counters import check_are_numbers, is_counted
from pinprof.fix.kinds import is_tensor
from pinprof.fix.names import (
    Uses,
    check_is_builtin,
    check_is_not_shown,
    is_seldom,
    uses_of,
)
from pinprof.fix.reads import Read, check_is_tensor, read_at
from pinprof.fix.rewrite import Change, NotSafe, NotThisForm, Waits, atom, call_of, walk
from pinprof.fix.source import Loop, SourceFile
from pinprof.fix.waits import check_may_come_later, check_no_other, loop_of_read

PURE = {"isfinite", "isnan", "isinf", "any", "all", "item", "abs", "max", "min", "sum", "mean", "norm", "isposinf"}
"""Methods and functions of torch that only look."""


def read_where_used(source: SourceFile, line: int) -> Change:
    """Return the change that lets a number be read where it is used: `x = loss.item()`. Raises Refusal."""
    read = read_at(source, line)
    small = source.statement(read.node).body[0]
    if not (isinstance(small, cst.Assign) and len(small.targets) == 1 and small.value is read.node):
        raise NotThisForm("the number goes neither into a sum nor into a variable of its own")
    name = small.targets[0].target
    if not isinstance(name, cst.Name):
        raise NotSafe(f"{source.code(name)} is not a variable of the function: other code may read it")
    loop = loop_of_read(source, small, "reads the number")
    uses = uses_of(source, name)
    if len(uses.set) != 1 or uses.changed:
        raise NotSafe(f"{name.value} is set in several places")
    if not uses.read:
        raise NotSafe(f"nothing uses {name.value}; remove the line")
    _check_tensor(source, read)
    _check_uses(source, small, uses, loop)
    check_may_come_later(source, read.node, loop)
    kept = call_of("X.detach().clone()", X=atom(read.tensor))
    text = "X.item()" if read.function == "item" else f"{read.function}(X)"
    remade = [source.rewrite(node, "read here", lambda each: call_of(text, X=_name(each))) for node in uses.read]
    waits = Waits(source.file, (read.node,), tuple(uses.read))
    return Change([source.anew(read.node, "stays on the GPU", kept), *remade], waits)


def _check_tensor(source: SourceFile, read: Read) -> None:
    check_is_tensor(source, read)
    if read.function != "item" and not is_tensor(source, read.tensor, read.node):
        raise NotSafe(f"{source.code(read.tensor)} may be no tensor")


def _check_uses(source: SourceFile, small: cst.CSTNode, uses: Uses, loop: Loop) -> None:
    """Raise Refusal unless a number is used behind the line that reads it, and not in each step."""
    for node in uses.read:
        check_is_not_shown(source, node)
        if not is_seldom(source, node, loop):
            raise NotSafe(f"{node.value} is used in each step, in line {source.line(node)}: use it every N steps")
        if source.line(node) <= source.line(small):
            raise NotSafe(f"{node.value} is used before it is set, in line {source.line(node)}")


def cheap_first(source: SourceFile, line: int) -> Change:
    """Return the change of `if wait and step % N == 0` to `if step % N == 0 and wait`. Raises Refusal."""
    found = [node for node in source.nodes if isinstance(node, cst.If) and source.line(node.test) == line]
    test = found[0].test if len(found) == 1 else None
    if not isinstance(test, cst.BooleanOperation):
        raise NotThisForm("a decision in each step depends on the value")
    if not isinstance(test.operator, cst.And):
        raise NotThisForm("a decision in each step depends on the value")
    if not is_counted(test.right):
        raise NotThisForm("a decision in each step depends on the value")
    if not _is_pure(source, test.left):
        raise NotSafe(f"{source.code(test.left)} may change something")
    check_are_numbers(source, test.right)
    check_no_other(source)
    waits = Waits(source.file, (test.left,), (found[0].body,))
    return Change([source.rewrite(test, "the cheap condition first", _swapped)], waits)


def _is_pure(source: SourceFile, test: cst.BaseExpression) -> bool:
    """Return whether a condition only looks: calls of torch's own that do, comparisons, `not`, `and`, `or`."""
    for node in walk(test):
        if isinstance(node, cst.Call):
            named = source.qualified(node.func)
            is_torch = method(node) in PURE and (named is None or named.startswith(("torch.", "math.")))
            if not (is_torch or _is_float(source, node)):
                return False
        if isinstance(node, cst.NamedExpr | cst.Await | cst.Yield | cst.Subscript | cst.Lambda):
            return False
    return True


def _is_float(source: SourceFile, call: cst.Call) -> bool:
    """Return whether a call is `float(x)`; `int(x)` fails for what is no number, in the steps that look."""
    if source.code(call.func) != "float" or len(call.args) != 1:
        return False
    check_is_builtin(source, "float")
    return True


def _swapped(node: cst.CSTNode) -> cst.CSTNode:
    test = cst.ensure_type(node, cst.BooleanOperation)
    return test.with_changes(left=test.right, right=test.left)


def _name(node: cst.CSTNode) -> cst.Name:
    return cst.ensure_type(node, cst.Name)
