"""Constants that each step makes on the host and copies to the GPU: the GPU makes them itself."""

from collections.abc import Sequence
from typing import NamedTuple

import libcst as cst

from pinprof.fix.core.batches import is_copy
from pinprof.fix.core.calls import (
    CASTS,
    VIEWS,
    argument,
    chain_of,
    check_has_no_comments,
    is_move,
    method,
    moved_to,
    with_argument,
)
from pinprof.fix.core.clocks import waits_at
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.rewrite import Change, NotSafe, Rewrite
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.waits import check_no_other, check_runs_in_order
from pinprof.trace.lines import Place

MAKERS = {"torch.tensor", "torch.as_tensor"}
KNOWN = {"device", "dtype", "requires_grad"}


class ConstantOnGpu(LineFix):
    """Makes a constant of one number on the GPU."""

    rules = ("PIN209",)
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

    def change(self, source: SourceFile, place: Place, work: Work) -> Change:
        """Return the change for a constant that each step makes. Raises Refusal."""
        return Change(made_there(source, place.line or 0, work), waits_at(source, place))


def made_there(source: SourceFile, line: int, work: Work) -> list[Rewrite]:
    """Return the rewrites that let a tensor of one number be made on the GPU. Raises Refusal."""
    calls = [call for call in source.calls(line) if source.qualified(call.func) in MAKERS]
    if len(calls) != 1:
        raise source.not_one(len(calls), "torch.tensor by its imported name")
    call = calls[0]
    with work.condition():
        check_no_other(source)
    with work.condition():
        check_runs_in_order(source, call)
    positional = [arg for arg in call.args if not arg.keyword]
    if any(arg.star for arg in call.args) or len(positional) != 1:
        raise NotSafe("its arguments are not known")
    if {arg.keyword.value for arg in call.args if arg.keyword} - KNOWN:
        raise NotSafe("its arguments are not a constant and a device")
    chain = chain_of(source, call)
    if argument(call, "device") is None and not any(map(is_move, chain)):
        raise NotSafe("its arguments are not a constant and a device")
    values = positional[0].value
    if filling_of(values) is None:
        raise NotSafe(
            f"{source.code(values)} is not one number; make it once, before the loop, or copy it from pinned memory"
        )
    return full_there(source, call, chain)


LARGEST = 2**15
"""Up to it numbers fit every kind that is usual: `torch.full` refuses where `torch.tensor` makes an infinity of one."""
REAL = {"torch.float", "torch.float32", "torch.double", "torch.float64"}
WHOLE = {"torch.long", "torch.int64"}
FILLERS = {"torch.ones", "torch.zeros", "torch.eye"}
"""Functions of torch that make the same numbers on each device."""


class Filling(NamedTuple):
    """The number that fills a tensor, and its shape."""

    number: cst.BaseExpression
    shape: tuple[int, ...]


def number_of(node: cst.BaseExpression) -> int | float | None:
    """Return the value of a literal number, if every kind of tensor holds it alike."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = number_of(node.expression)
        return None if value is None else -value
    if isinstance(node, cst.Integer | cst.Float):
        value = node.evaluated_value
        return value if isinstance(value, int | float) and abs(value) <= LARGEST else None
    return None


def filling_of(node: cst.BaseExpression) -> Filling | None:
    """Return what fills `0.5`, `[0.5]` or `[[1, 1], [1, 1]]`; None for other numbers than one."""
    if number_of(node) is not None:
        return Filling(node, ())
    if not isinstance(node, cst.List | cst.Tuple) or not node.elements:
        return None
    inner = [filling_of(element.value) if isinstance(element, cst.Element) else None for element in node.elements]
    first = inner[0]
    if first is None or not all(value is not None and _are_alike(first, value) for value in inner):
        return None
    return Filling(first.number, (len(inner), *first.shape))


def _are_alike(one: Filling, other: Filling) -> bool:
    """Return whether two numbers are one, of one kind: 0 and -0.0 are not."""
    return repr(number_of(one.number)) == repr(number_of(other.number)) and one.shape == other.shape


def full_there(source: SourceFile, call: cst.Call, chain: Sequence[cst.BaseExpression]) -> list[Rewrite]:
    """Return the rewrite of `torch.tensor(0.5, device=d)`, or `torch.tensor([0.5]).to(d)`, to `torch.full`.

    Raises Refusal.
    """
    values = next(arg.value for arg in call.args if not arg.keyword)
    filling = filling_of(values)
    assert filling is not None
    dtype = argument(call, "dtype")
    named = source.qualified(dtype.value) if dtype else None
    if dtype and named not in REAL | (WHOLE if isinstance(number_of(filling.number), int) else set()):
        raise NotSafe("its dtype may not hold the number")
    if not isinstance(call.func, cst.Attribute) or argument(call, "requires_grad"):
        raise NotSafe("it is not made by torch.tensor() under this name, or has gradients")
    if filling.shape:
        _check_comments(source, call)
    if argument(call, "device") is not None:
        return [source.rewrite(call, "made on the GPU", lambda node: _full(node, filling))]
    device = moved_to(source, chain[0]) if chain else None
    if device is None:
        raise NotSafe("the source does not show that it goes to a device, and to which")
    _check_comments(source, chain[0])
    full = cst.ensure_type(with_argument("device", source.code(device))(_full(call, filling)), cst.Call)
    around = cst.ensure_type(chain[0], cst.Call)
    whole = full.with_changes(lpar=[*around.lpar, *full.lpar], rpar=[*full.rpar, *around.rpar])
    return [source.anew(around, "made on the GPU", whole)]


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


def filled_there(source: SourceFile, line: int, work: Work) -> list[Rewrite]:
    """Return the rewrites that let `torch.ones(n).long().to(device)` be made on the device. Raises Refusal."""
    made = [call for call in source.calls(line) if source.qualified(call.func) in FILLERS]
    copies = [call for call in source.calls(line) if is_copy(call)]
    if not made or len(made) != len(copies):
        raise NotSafe("what the line copies is more than tensors of one number")
    with work.condition():
        check_no_other(source)
    with work.condition():
        for call in made:
            check_runs_in_order(source, call)
    return [rewrite for call in made for rewrite in _made_there(source, call, copies)]


def _made_there(source: SourceFile, call: cst.Call, copies: Sequence[cst.Call]) -> list[Rewrite]:
    keywords = {arg.keyword.value for arg in call.args if arg.keyword}
    if keywords - {"dtype"} or any(arg.star == "**" for arg in call.args):
        raise NotSafe("its arguments are not a shape and a type")
    chain = chain_of(source, call)
    place = next((number for number, link in enumerate(chain) if is_move(link)), None)
    if place is None or not any(call is chain[place] for call in copies):
        raise NotSafe("what is copied is made elsewhere")
    if not all(_keeps_numbers(link) for link in chain[:place]):
        raise NotSafe("something else is made of it before it is copied")
    device = moved_to(source, chain[place])
    if device is None:
        raise NotSafe("the source does not show that it goes to a device, and to which")
    there = with_argument("device", source.code(device))
    _check_comments(source, chain[place])
    return [
        source.rewrite(call, "made on the GPU", there),
        source.rewrite(chain[place], "not copied", _called_on),
    ]


def _check_comments(source: SourceFile, node: cst.BaseExpression) -> None:
    check_has_no_comments(source.code(node), "make it on the GPU")


def _called_on(node: cst.CSTNode) -> cst.BaseExpression:
    """Return what a method is called on, with the parentheses around the call."""
    call = cst.ensure_type(node, cst.Call)
    inner = cst.ensure_type(call.func, cst.Attribute).value
    return inner.with_changes(lpar=[*call.lpar, *inner.lpar], rpar=[*inner.rpar, *call.rpar])


def _keeps_numbers(node: cst.BaseExpression) -> bool:
    """Return whether a method gives the same on each device: another type or shape of a few numbers."""
    if isinstance(node, cst.Subscript):
        return True
    is_cast = isinstance(node, cst.Call) and method(node) in CASTS and not node.args
    return is_cast or (isinstance(node, cst.Call) and method(node) in VIEWS)
