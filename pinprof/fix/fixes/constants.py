"""Constants that each step makes on the host and copies to the GPU: made once, or by the GPU itself."""

from collections.abc import Sequence
from itertools import takewhile
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
    last_name,
    method,
    moved_to,
    with_argument,
)
from pinprof.fix.core.clocks import waits_at
from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.rewrite import Change, NotSafe, Refusal, Rewrite, walk
from pinprof.fix.core.source import Loop, SourceFile
from pinprof.fix.core.uses import check_is_local, is_set_by_others, local_uses
from pinprof.fix.core.waits import check_no_other, check_runs_in_order
from pinprof.trace.lines import Place

SAFE_CONSTANT = "No code outside of the source shown writes to the constant."
MAKERS = {"torch.tensor", "torch.as_tensor"}
KNOWN = {"device", "dtype", "requires_grad"}
SETTERS = {"set_device", "set_default_device", "set_default_dtype", "set_default_tensor_type"}


class ConstantOnGpu(LineFix):
    """Makes a constant once, before its loop, or on the GPU, if it is one number."""

    rules = ("PIN209",)
    what = "no step copies the constant"
    safe_if = SAFE_CONSTANT
    guide = (
        (
            (
                "one number, or a list of the same, is made on the GPU (`torch.full`), also for "
                "`torch.tensor(0.5).to(device)`; a list is made once before the loop, with what is made of it there "
                "(`.view(1, 3)`, `.to(device)`)"
            ),
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
        (
            """
            import torch
            for x in loader:
                w = torch.tensor([0.1, 0.9], device='cuda')  #? PIN209
                y = x * w
            """,
            """
            import torch
            w = torch.tensor([0.1, 0.9], device='cuda')
            for x in loader:
                y = x * w
            """,
        ),
    )
    VALID = (
        (
            """
            import torch
            y = torch.tensor(rate, device=device)  #? PIN209
            """,
            "rate is not a constant",
        ),
        (
            """
            import torch
            for x in loader:
                w = torch.tensor([1, 2], device='cuda')  #? PIN209
                f(w)
            """,
            "line 4 may change w, or keep it",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> Change:
        """Return the change for a constant that each step makes. Raises Refusal."""
        return Change(made_once_or_there(source, place.line or 0, work), waits_at(source, place))


def made_once_or_there(source: SourceFile, line: int, work: Work) -> list[Rewrite]:
    """Return the rewrites for a tensor of constants: made before the loop, or on the GPU if it is one number.

    Raises Refusal.
    """
    calls = [call for call in source.calls(line) if source.qualified(call.func) in MAKERS]
    if len(calls) != 1:
        raise source.not_one(len(calls), "torch.tensor by its imported name")
    call = calls[0]
    with work.condition():
        check_no_other(source)
    with work.condition():
        check_runs_in_order(source, call)
    positional = [each for each in call.args if not each.keyword]
    if any(each.star for each in call.args) or len(positional) != 1:
        raise NotSafe("its arguments are not known")
    if {each.keyword.value for each in call.args if each.keyword} - KNOWN:
        raise NotSafe("its arguments are not a constant and a device")
    chain = chain_of(source, call)
    if argument(call, "device") is None and not any(map(is_move, chain)):
        raise NotSafe("its arguments are not a constant and a device")
    values = positional[0].value
    if number_of(values) is not None and argument(call, "device") is not None:
        return full_there(source, call, chain)
    if not _is_constant(values):
        raise NotSafe(f"{source.code(values)} is not a constant; copy it from pinned memory")
    try:
        return _before_the_loop(source, call, chain, work)
    except Refusal as reason:
        return _there_if_filled(source, call, chain, reason)


def _there_if_filled(
    source: SourceFile, call: cst.Call, chain: list[cst.BaseExpression], reason: Refusal
) -> list[Rewrite]:
    """Return the rewrite of one number that cannot be made before a loop. Raises the reason where it is not one."""
    try:
        return full_there(source, call, chain)
    except Refusal:
        raise reason from None


def _is_constant(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.List | cst.Tuple):
        return all(isinstance(each, cst.Element) and _is_constant(each.value) for each in node.elements)
    return number_of(node) is not None


def _before_the_loop(source: SourceFile, call: cst.Call, chain: list[cst.BaseExpression], work: Work) -> list[Rewrite]:
    statement = source.statement(call)
    small = statement.body[0]
    whole = chain[-1] if chain else call
    if not (isinstance(small, cst.Assign) and len(small.targets) == 1 and small.value is whole):
        raise NotSafe("the constant has no name of its own; make it before the loop")
    name = small.targets[0].target
    loop = source.loop(call)
    if not isinstance(name, cst.Name) or loop is None:
        raise NotSafe("no loop of the same function makes the constant; make it once, and pass it on")
    if source.parent(statement) is not loop.body:
        raise NotSafe("not every step makes the same constant")
    with work.condition():
        check_is_local(source, name)
    uses = local_uses(source, name)
    if len(uses.set) != 1 or uses.changed:
        raise NotSafe(f"{name.value} is set or changed in several places")
    with work.condition():
        _check_reads(source, uses.read, loop, source.line(small))
    with work.condition():
        for keyword in ("device", "dtype", "requires_grad"):
            given = argument(call, keyword)
            if given is not None:
                _check_fixed(source, given.value, loop, keyword)
        for given in (each for link in chain if isinstance(link, cst.Call) for each in link.args):
            if not _is_constant(given.value) and not (given.keyword and source.code(given.value) in {"True", "False"}):
                _check_fixed(source, given.value, loop, given.keyword.value if given.keyword else "device")
    return _hoisted(source, statement, loop, name.value)


def _hoisted(source: SourceFile, statement: cst.SimpleStatementLine, loop: Loop, name: str) -> list[Rewrite]:
    """Return the rewrites that put a statement before its loop, with its comments."""

    def hoisted(node: cst.CSTNode) -> "cst.FlattenSentinel[cst.BaseStatement]":
        compound = cst.ensure_type(node, cst.For) if isinstance(node, cst.For) else cst.ensure_type(node, cst.While)
        blank = list(takewhile(lambda each: not each.comment, compound.leading_lines))
        comments = [each for each in statement.leading_lines if each.comment]
        own = statement.with_changes(leading_lines=[*blank, *comments])
        return cst.FlattenSentinel([own, compound.with_changes(leading_lines=compound.leading_lines[len(blank) :])])

    return [
        source.anew(statement, "made before the loop", cst.RemoveFromParent()),
        source.rewrite(loop, f"{name} before", hoisted),
    ]


def _check_reads(source: SourceFile, read: list[cst.Name], loop: Loop, made: int) -> None:
    """Raise Refusal unless a tensor that is made in a line is only read, behind it and within the loop."""
    if any(isinstance(each, cst.Call) and last_name(each) in SETTERS for each in walk(loop)):
        raise NotSafe("the loop sets the device, or the type of tensors")
    for node in read:
        if not source.is_within(node, loop.body) or source.line(node) <= made:
            raise NotSafe(f"{node.value} is used outside of the loop, or before it is made")
        if not _only_reads(source, node):
            raise NotSafe(f"line {source.line(node)} may change {node.value}, or keep it")


def _check_fixed(source: SourceFile, node: cst.BaseExpression, loop: Loop, keyword: str) -> None:
    """Raise Refusal unless an expression is the same before the loop: a constant, a type of torch, a variable."""
    if keyword == "requires_grad":
        raise NotSafe("the constant has gradients")
    if isinstance(node, cst.SimpleString) or (source.qualified(node) or "").startswith("torch."):
        return
    if isinstance(node, cst.Name):
        bound = [each for each in walk(loop) if isinstance(each, cst.Name) and each.value == node.value]
        targets = [each for each in bound if not _is_argument(source, each)]
        if not targets and not is_set_by_others(source, node.value):
            return
    raise NotSafe(f"{keyword}={source.code(node)} may change in the loop")


def _is_argument(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a name is only handed to a call, or is the word for an argument."""
    return isinstance(source.parent(node), cst.Arg)


def _only_reads(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a use of a tensor makes a new one of it: arithmetic, comparisons, functions of torch."""
    parent = source.parent(node)
    if isinstance(parent, cst.UnaryOperation):
        return not isinstance(parent.operator, cst.Plus)  # which returns the tensor itself
    if isinstance(parent, cst.BinaryOperation | cst.ComparisonTarget):
        return True
    if isinstance(parent, cst.Comparison):
        return parent.left is node
    if isinstance(parent, cst.Arg):
        call = cst.ensure_type(source.parent(parent), cst.Call) if isinstance(source.parent(parent), cst.Call) else None
        if call is None or parent.star:
            return False
        named = source.qualified(call.func) or ""
        words = {each.keyword.value for each in call.args if each.keyword}
        return named in PURE and "out" not in words
    return False


LOSSES = (
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
)
PURE = {
    *(f"torch.{name}" for name in ("where", "mul", "add", "sub", "div", "matmul", "dot", "maximum", "minimum", "pow")),
    *(f"torch.nn.functional.{name}" for name in LOSSES),
}
"""Functions of torch that return a new tensor."""


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
