"""A constant of one number that each step makes on the host and copies to the GPU: the GPU makes it itself."""

from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import argument, check_has_no_comments, moved_to, with_argument
from pinprof.fix.core.clocks import waits_at
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.rewrite import NotSafe, PlaceChange, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.waits import check_runs_without_wait
from pinprof.trace.lines import Place

MAKERS = {"torch.tensor", "torch.as_tensor"}
LARGEST = 2**15
"""Up to it numbers fit every kind that is usual: `torch.full` refuses where `torch.tensor` makes an infinity of one."""
REAL = {"torch.float", "torch.float32", "torch.double", "torch.float64"}
WHOLE = {"torch.long", "torch.int64"}
BY_HAND = "make it on the GPU"


class ConstantOnGpu(LineFix):
    """Makes a constant of one number on the GPU."""

    rules = ("PIN209", "PIN101", "PIN102", "PIN104", "PIN105")
    what = "no step copies the constant"
    safe_if = "Nothing else relies on the removed wait."
    guide = (
        (
            "one number, or a list of the same, is made on the GPU (`torch.full`), also of `torch.tensor(0.5).to(d)`",
            "equal",
        ),
    )
    INVALID = (
        (
            """
            import torch
            y = x * torch.tensor(0.5, device=device)  #? PIN209
            """,
            """
            import torch
            y = x * torch.full((), 0.5, device=device)
            """,
        ),
    )
    VALID = (
        (
            """
            import torch
            y = torch.tensor(rate, device=device)  #? PIN209
            """,
            "rate is not one number",
        ),
        (
            """
            import torch
            for x in loader:
                w = torch.tensor([1, 2], device='cuda')  #? PIN209
                f(w)
            """,
            "[1, 2] is not one number",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change for a constant that each step makes. Raises Refusal."""
        calls = [call for call in source.calls(place.line or 0) if source.qualified(call.func) in MAKERS]
        if len(calls) != 1:
            raise source.not_one(len(calls), "torch.tensor by its imported name")
        call = calls[0]
        with work.condition():
            check_runs_without_wait(source, call)
        return PlaceChange([_made_there(source, call, _filling(source, call))], waits_at(source, place))


class Filling(NamedTuple):
    """The number that fills a tensor, and its shape."""

    number: cst.BaseExpression
    shape: tuple[int, ...]


def filling_of(node: cst.BaseExpression) -> Filling | None:
    """Return what fills `0.5`, `[0.5]` or `[[1, 1], [1, 1]]`; None for other numbers than one."""
    shape: list[int] = []
    while isinstance(node, cst.List | cst.Tuple) and node.elements:
        first = node.elements[0]
        if not all(m.matches(one, m.Element()) and one.value.deep_equals(first.value) for one in node.elements):
            return None
        shape.append(len(node.elements))
        node = first.value
    is_minus = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    number = cst.ensure_type(node, cst.UnaryOperation).expression if is_minus else node
    is_held = isinstance(number, cst.Integer | cst.Float) and number.evaluated_value <= LARGEST
    return Filling(node, tuple(shape)) if is_held else None


def _filling(source: SourceFile, call: cst.Call) -> Filling:
    """Return what fills the tensor that a call makes. Raises Refusal for more than a constant."""
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


def _made_there(source: SourceFile, call: cst.Call, filling: Filling) -> Rewrite:
    """Return the rewrite of `torch.tensor(0.5, device=d)`, or `torch.tensor([0.5]).to(d)`, to `torch.full`."""
    if argument(call, "device") is not None:
        if filling.shape:
            check_has_no_comments(source.code(call), BY_HAND)
        return source.rewrite(call, "made on the GPU", lambda node: _full(node, filling))
    move, device = moved_to(source, call)
    check_has_no_comments(source.code(move), BY_HAND)
    full = cst.ensure_type(with_argument("device", source.code(device))(_full(call, filling)), cst.Call)
    whole = full.with_changes(lpar=[*move.lpar, *full.lpar], rpar=[*full.rpar, *move.rpar])
    return source.anew(move, "made on the GPU", whole)


def _full(node: cst.CSTNode, filling: Filling) -> cst.Call:
    """Return `torch.full((), 0.5, device=device)` for `torch.tensor(0.5, device=device)`."""
    call = cst.ensure_type(node, cst.Call)
    place = next(number for number, arg in enumerate(call.args) if not arg.keyword)
    comma = "," if len(filling.shape) == 1 else ""
    shape = cst.parse_expression(f"({', '.join(map(str, filling.shape))}{comma})")
    before = cst.Arg(shape, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    number = call.args[place].with_changes(value=filling.number)
    function = cst.ensure_type(call.func, cst.Attribute)
    arguments = [*call.args[:place], before, number, *call.args[place + 1 :]]
    return call.with_changes(func=function.with_changes(attr=cst.Name("full")), args=arguments)
