"""Test the number of steps before a number of the GPU, which the host would wait for."""

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import method
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.numbers import may_be_foreign
from pinprof.fix.core.rewrite import NotSafe, NotThisForm, PlaceChange, Waits, walk
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.uses import binds, check_is_builtin, is_target, uses_in
from pinprof.fix.core.waits import check_no_other
from pinprof.trace.lines import Place

DECIDES = "a decision in each step depends on the value"
PURE = {"isfinite", "isnan", "isinf", "any", "all", "item", "abs", "max", "min", "sum", "mean", "norm", "isposinf"}
"""Methods and functions of torch that change nothing."""
CHANGING = cst.NamedExpr | cst.Await | cst.Yield | cst.Subscript | cst.Lambda
FLOAT = m.Call(m.Name("float"), [m.Arg()])
NUMBER = m.Integer(m.MatchRegex("[1-9][0-9]*"))
COUNT = m.BinaryOperation(m.Name() | m.BinaryOperation(m.Name(), m.Add() | m.Subtract(), NUMBER), m.Modulo(), NUMBER)
CHEAP = m.UnaryOperation(m.Not(), COUNT) | m.Comparison(COUNT, [m.ComparisonTarget(m.Equal(), m.Integer())])
BOTH = m.BooleanOperation(operator=m.And(), right=CHEAP)
"""`wait and (step + 1) % 50 == 0`."""


class CheapConditionFirst(LineFix):
    """Tests the number of steps before it waits for the GPU: `if step % N == 0 and wait`."""

    rules = ("PIN202", "PIN201")
    what = "the cheap condition comes first"
    safe_if = "Neither condition changes anything."
    guide = (("`if wait and step % 100 == 0` tests the cheap condition first", "equal"),)
    INVALID = (
        """
        import torch
        for step, loss in enumerate(losses):
            if torch.isnan(loss) and step % 50 == 0:  #? PIN202
                print('nan')
        # becomes
        import torch
        for step, loss in enumerate(losses):
            if step % 50 == 0 and torch.isnan(loss):
                print('nan')
        """,
    )
    VALID = (
        """
        for loss in losses:
            if loss > 9:  #? PIN202
                break
        # stays: a decision in each step depends on the value
        """,
        """
        for step, x in enumerate(loader):
            if check(x) and step % 50 == 0:  #? PIN202
                print(x)
        # stays: check(x) may change something
        """,
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change that puts the cheap condition first. Raises Refusal."""
        return _cheap_first(source, place.line or 0, work)


def _cheap_first(source: SourceFile, line: int, work: Work) -> PlaceChange:
    """Return the change of `if wait and step % N == 0` to `if step % N == 0 and wait`. Raises Refusal."""
    ifs = [node for node in source.nodes if isinstance(node, cst.If) and source.line(node.test) == line]
    test = ifs[0].test if len(ifs) == 1 else None
    if not (isinstance(test, cst.BooleanOperation) and m.matches(test, BOTH)):
        raise NotThisForm(DECIDES)
    with work.condition():
        _check_only_looks(source, test.left)
    with work.condition():
        _check_are_numbers(source, test.right)
    with work.condition():
        check_no_other(source)
    waits = Waits(source.file, (test.left,), (ifs[0].body,))
    return PlaceChange([source.rewrite(test, "the cheap condition first", _swapped)], waits)


def _check_only_looks(source: SourceFile, test: cst.BaseExpression) -> None:
    """Raise Refusal unless a condition changes nothing: functions of torch in `PURE`, `float(x)`, comparisons.

    `int(x)` may raise an error, and then only in the steps that test it.
    """
    for node in walk(test):
        named = source.qualified(node.func) if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Call) and m.matches(node, FLOAT):
            check_is_builtin(source, "float")
        elif isinstance(node, cst.Call):
            is_of_torch = named is None or named.startswith(("torch.", "math."))
            if not (method(node) in PURE and is_of_torch):
                raise NotSafe(f"{source.code(test)} may change something")
        elif isinstance(node, CHANGING) or _may_compute(source, node):
            raise NotSafe(f"{source.code(test)} may change something")


def _may_compute(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether a name may run code of the program: a property, or the comparison of an object."""
    if isinstance(node, cst.Attribute):
        is_method = m.matches(source.parent(node) or node, m.Call(func=m.Attribute()))
        return not (is_method or source.meanings(node))
    return isinstance(node, cst.Name) and may_be_foreign(source, node)


def _swapped(node: cst.CSTNode) -> cst.CSTNode:
    test = cst.ensure_type(node, cst.BooleanOperation)
    return test.with_changes(left=test.right, right=test.left)


def _check_are_numbers(source: SourceFile, test: cst.BaseExpression) -> None:
    """Raise Refusal unless each variable of a condition counts a loop: the first condition may guard others."""
    for node in walk(test):
        if isinstance(node, cst.Name) and not _is_of_loop(source, node):
            raise NotSafe(f"{node.value} may not be a number each time: the first condition may guard it")


def _is_of_loop(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a loop around a node counts with it: `for step in ...`, with no other value for it inside."""
    scope = source.scope(node)
    for outer in source.ancestors(node):
        if outer is scope:
            return False
        if isinstance(outer, cst.For) and binds(outer.target, node.value):
            uses = [*uses_in(source, outer.body, node.value)]
            return not any(is_target(source, use) or _is_changed(source.parent(use)) for use in uses)
    return False


def _is_changed(parent: cst.CSTNode | None) -> bool:
    return isinstance(parent, cst.AugAssign | cst.NameItem)
