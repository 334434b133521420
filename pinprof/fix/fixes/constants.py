"""Make a constant on the GPU that each step makes on the host and copies."""

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import (
    CASTS,
    VIEWS,
    argument,
    check_has_no_comments,
    is_copy,
    method,
    moved_to,
    with_argument,
)
from pinprof.fix.core.clocks import waits_at
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.rewrite import NotSafe, NotThisForm, PlaceChange, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.waits import check_runs_without_wait
from pinprof.trace.lines import Place

MAKERS = {"torch.tensor", "torch.as_tensor"}
FILLERS = {"torch.ones", "torch.zeros", "torch.eye"}
"""Functions of torch that make the same numbers on every device."""
LARGEST = 2**15
"""Larger numbers may not fit float16: there `torch.full` raises an error, and `torch.tensor` makes an infinity."""
REAL = {"torch.float", "torch.float32", "torch.double", "torch.float64"}
WHOLE = {"torch.long", "torch.int64"}
BY_HAND = "make it on the GPU"


class ConstantOnGpu(LineFix):
    """Makes a constant of one number on the GPU, and `torch.ones(n).to(device)` there."""

    rules = ("PIN209", "PIN101", "PIN102", "PIN104", "PIN105")
    what = "no step copies the constant"
    safe_if = "Nothing else relies on the removed wait."
    guide = (
        (
            "one number, or a list of the same, is made on the GPU (`torch.full`), also of `torch.tensor(0.5).to(d)`",
            "equal",
        ),
        ("`torch.ones(n).long().to(device)` becomes `torch.ones(n, device=device).long()`", "equal"),
    )
    INVALID = (
        """
        import torch
        y = x * torch.tensor(0.5, device=device)  #? PIN209
        # becomes
        import torch
        y = x * torch.full((), 0.5, device=device)
        """,
        """
        import torch
        for x in loader:
            f(torch.ones(4).long().to(device))  #? PIN104
        # becomes
        import torch
        for x in loader:
            f(torch.ones(4, device=device).long())
        """,
    )
    VALID = (
        """
        import torch
        y = torch.tensor(rate, device=device)  #? PIN209
        # stays: rate is not one number
        """,
        """
        import torch
        for x in loader:
            w = torch.tensor([1, 2], device='cuda')  #? PIN209
            f(w)
        # stays: [1, 2] is not one number
        """,
        """
        import torch
        for x in loader:
            f((torch.ones(4) + x).to(device))  #? PIN104
        # stays: not the name of a batch
        """,
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change for a constant, or for all tensors of ones and zeros of a line. Raises Refusal."""
        calls = [call for call in source.calls(place.line or 0) if source.qualified(call.func) in MAKERS]
        fillers = [call for call in source.calls(place.line or 0) if source.qualified(call.func) in FILLERS]
        if len(calls) != 1 and (calls or not fillers):
            raise source.not_one(len(calls), "torch.tensor by its imported name")
        if not calls and len(fillers) != len([call for call in source.calls(place.line or 0) if is_copy(call)]):
            raise NotThisForm("what the line copies is more than tensors of one number")
        rewrites: list[Rewrite] = []
        for call in calls or fillers:
            with work.condition():
                check_runs_without_wait(source, call)
            rewrites += [_as_full(source, call, _filling(source, call))] if calls else _filled_there(source, call)
        return PlaceChange(rewrites, waits_at(source, place))


class Filling(NamedTuple):
    """The number that fills a tensor, and its shape."""

    number: cst.BaseExpression
    shape: tuple[int, ...]


def filling_of(node: cst.BaseExpression) -> Filling | None:
    """Return number and shape of `0.5`, `[0.5]` or `[[1, 1], [1, 1]]`; None if the numbers differ."""
    shape: list[int] = []
    while isinstance(node, cst.List | cst.Tuple) and node.elements:
        first = node.elements[0]
        if not all(m.matches(item, m.Element()) and item.value.deep_equals(first.value) for item in node.elements):
            return None
        shape.append(len(node.elements))
        node = first.value
    is_minus = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    number = cst.ensure_type(node, cst.UnaryOperation).expression if is_minus else node
    is_held = isinstance(number, cst.Integer | cst.Float) and number.evaluated_value <= LARGEST
    return Filling(node, tuple(shape)) if is_held else None


def _filling(source: SourceFile, call: cst.Call) -> Filling:
    """Return number and shape of the tensor that a call makes. Raises Refusal unless it is one constant number."""
    positional = [arg for arg in call.args if not arg.keyword]
    if any(arg.star for arg in call.args) or len(positional) != 1:
        raise NotSafe("its arguments are not known")
    filling = filling_of(positional[0].value)
    if filling is None:
        code = source.code(positional[0].value)
        raise NotSafe(f"{code} is not one number; make it once, before the loop, or copy it from pinned memory")
    if {arg.keyword.value for arg in call.args if arg.keyword} - {"device", "dtype"}:
        raise NotSafe("its arguments are not a constant and a device")
    dtype = argument(call, "dtype")
    named = source.qualified(dtype.value) if dtype else None
    if dtype and named not in REAL | (WHOLE if not m.findall(filling.number, m.Float()) else set()):
        raise NotSafe("its dtype may not hold the number")
    if not isinstance(call.func, cst.Attribute):
        raise NotSafe("it is not made by torch.tensor() under this name")
    return filling


def _as_full(source: SourceFile, call: cst.Call, filling: Filling) -> Rewrite:
    """Return the rewrite of `torch.tensor(0.5, device=d)`, or `torch.tensor([0.5]).to(d)`, to `torch.full`."""
    if argument(call, "device") is not None:
        if filling.shape:
            check_has_no_comments(source.code(call), BY_HAND)
        return source.rewrite(call, "made on the GPU", lambda node: _full(node, filling))
    move, device = moved_to(source, call)
    check_has_no_comments(source.code(move), BY_HAND)
    full = cst.ensure_type(with_argument("device", source.code(device))(_full(call, filling)), cst.Call)
    whole = full.with_changes(lpar=[*move.lpar, *full.lpar], rpar=[*full.rpar, *move.rpar])
    return source.replacement(move, "made on the GPU", whole)


def _full(node: cst.CSTNode, filling: Filling) -> cst.Call:
    """Return `torch.full((), 0.5, device=device)` for `torch.tensor(0.5, device=device)`."""
    call = cst.ensure_type(node, cst.Call)
    index = next(number for number, arg in enumerate(call.args) if not arg.keyword)
    comma = "," if len(filling.shape) == 1 else ""
    shape = cst.parse_expression(f"({', '.join(map(str, filling.shape))}{comma})")
    before = cst.Arg(shape, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    number = call.args[index].with_changes(value=filling.number)
    function = cst.ensure_type(call.func, cst.Attribute)
    arguments = [*call.args[:index], before, number, *call.args[index + 1 :]]
    return call.with_changes(func=function.with_changes(attr=cst.Name("full")), args=arguments)


def _filled_there(source: SourceFile, call: cst.Call) -> Iterator[Rewrite]:
    keywords = {arg.keyword.value for arg in call.args if arg.keyword}
    if keywords - {"dtype"} or any(arg.star == "**" for arg in call.args):
        raise NotSafe("its arguments are not a shape and a type")
    move, device = moved_to(source, _changed(source, call))
    check_has_no_comments(source.code(move), "make it on the GPU")
    yield source.rewrite(call, "made on the GPU", with_argument("device", source.code(device)))
    yield source.rewrite(move, "not copied", _called_on)


def _changed(source: SourceFile, call: cst.Call) -> cst.Call:
    """Return the last call that only changes the type or shape of a tensor before it is copied."""
    while True:
        attribute = source.parent(call)
        outer = source.parent(attribute) if isinstance(attribute, cst.Attribute) else None
        if not (isinstance(outer, cst.Call) and outer.func is attribute):
            return call
        if not (method(outer) in VIEWS or (method(outer) in CASTS and not outer.args)):
            return call
        call = outer


def _called_on(node: cst.CSTNode) -> cst.BaseExpression:
    """Return what a method is called on, with the parentheses around the call."""
    call = cst.ensure_type(node, cst.Call)
    inner = cst.ensure_type(call.func, cst.Attribute).value
    return inner.with_changes(lpar=[*call.lpar, *inner.lpar], rpar=[*inner.rpar, *call.rpar])
