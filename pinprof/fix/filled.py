"""Tensors of one number, in each element: the GPU makes them itself, instead of copying them from the host."""

from collections.abc import Sequence
from typing import NamedTuple

import libcst as cst

from pinprof.fix.batches import VIEWS, is_copy
from pinprof.fix.calls import argument, check_has_no_comments, method, with_argument
from pinprof.fix.chains import CASTS, chain_of, is_move, moved_to
from pinprof.fix.rewrite import NotSafe, Rewrite
from pinprof.fix.source import SourceFile
from pinprof.fix.waits import check_no_other, check_runs_in_order

LARGEST = 2**15
"""Up to it numbers fit every kind that is usual: `torch.full` refuses where `torch.tensor` makes an infinity of one."""
REAL = {"torch.float", "torch.float32", "torch.double", "torch.float64"}
WHOLE = {"torch.long", "torch.int64"}
MAKERS = {"torch.ones", "torch.zeros", "torch.eye"}
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
    inner = [filling_of(each.value) if isinstance(each, cst.Element) else None for each in node.elements]
    first = inner[0]
    if first is None or not all(each is not None and _are_alike(first, each) for each in inner):
        return None
    return Filling(first.number, (len(inner), *first.shape))


def _are_alike(one: Filling, other: Filling) -> bool:
    """Return whether two numbers are one, of one kind: 0 and -0.0 are not."""
    return repr(number_of(one.number)) == repr(number_of(other.number)) and one.shape == other.shape


def full_there(source: SourceFile, call: cst.Call, chain: Sequence[cst.BaseExpression]) -> list[Rewrite]:
    """Return the rewrite of `torch.tensor(0.5, device=d)`, or `torch.tensor([0.5]).to(d)`, to `torch.full`.

    Raises Refusal.
    """
    values = next(each.value for each in call.args if not each.keyword)
    filling = filling_of(values)
    if filling is None:
        raise NotSafe(f"{source.code(values)} is not one number")
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
    place = next(number for number, each in enumerate(call.args) if not each.keyword)
    comma = "," if len(filling.shape) == 1 else ""
    shape = cst.parse_expression(f"({', '.join(map(str, filling.shape))}{comma})")
    before = cst.Arg(shape, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    number = call.args[place].with_changes(value=filling.number)
    function = cst.ensure_type(call.func, cst.Attribute)
    arguments = [*call.args[:place], before, number, *call.args[place + 1 :]]
    return call.with_changes(func=function.with_changes(attr=cst.Name("full")), args=arguments)


def filled_there(source: SourceFile, line: int) -> list[Rewrite]:
    """Return the rewrites that let `torch.ones(n).long().to(device)` be made on the device. Raises Refusal."""
    made = [call for call in source.calls(line) if source.qualified(call.func) in MAKERS]
    copies = [call for call in source.calls(line) if is_copy(call)]
    if not made or len(made) != len(copies):
        raise NotSafe("what the line copies is more than tensors of one number")
    check_no_other(source)
    return [each for call in made for each in _made_there(source, call, copies)]


def _made_there(source: SourceFile, call: cst.Call, copies: Sequence[cst.Call]) -> list[Rewrite]:
    check_runs_in_order(source, call)
    keywords = {each.keyword.value for each in call.args if each.keyword}
    if keywords - {"dtype"} or any(each.star == "**" for each in call.args):
        raise NotSafe("its arguments are not a shape and a type")
    chain = chain_of(source, call)
    place = next((number for number, each in enumerate(chain) if is_move(each)), None)
    if place is None or not any(each is chain[place] for each in copies):
        raise NotSafe("what is copied is made elsewhere")
    if not all(_keeps_numbers(each) for each in chain[:place]):
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
