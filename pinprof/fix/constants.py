"""Constants that each step makes on the host and copies to the GPU."""

from itertools import takewhile

import libcst as cst

from pinprof.fix.batches import VIEWS
from pinprof.fix.calls import argument, last_name
from pinprof.fix.names import is_set_by_others, uses_of
from pinprof.fix.rewrite import NotSure, Rewrite, walk
from pinprof.fix.source import Loop, SourceFile
from pinprof.fix.waits import check_no_other, check_runs_in_order

SAFE_CONSTANT = "No code outside of the source shown writes to the constant."
MAKERS = {"torch.tensor", "torch.as_tensor"}
KNOWN = {"device", "dtype", "requires_grad"}
LARGEST = 2**15
"""Up to it numbers fit every kind that is usual: `torch.full` refuses where `torch.tensor` makes an infinity of one."""
MOVES = {"to", "cuda"}
SETTERS = {"set_device", "set_default_device", "set_default_dtype", "set_default_tensor_type"}
KEPT = VIEWS | MOVES | {"bfloat16", "bool", "double", "float", "half", "int", "long"}
"""Methods that make another constant of one."""
REAL = {"torch.float", "torch.float32", "torch.double", "torch.float64"}
WHOLE = {"torch.long", "torch.int64"}


def made_once_or_there(source: SourceFile, line: int) -> list[Rewrite]:
    """Return the rewrites for a tensor of constants: one number is made on the GPU, a list before the loop.

    Raises NotSure.
    """
    calls = [call for call in source.calls(line) if source.qualified(call.func) in MAKERS]
    if len(calls) != 1:
        raise NotSure(source.names(len(calls), "torch.tensor by its imported name"))
    call = calls[0]
    check_no_other(source)
    check_runs_in_order(source, call)
    positional = [each for each in call.args if not each.keyword]
    if any(each.star for each in call.args) or len(positional) != 1:
        raise NotSure("its arguments are not known")
    if {each.keyword.value for each in call.args if each.keyword} - KNOWN:
        raise NotSure("its arguments are not a constant and a device")
    chain = _chain(source, call)
    if argument(call, "device") is None and not any(_method(each) in MOVES for each in chain):
        raise NotSure("its arguments are not a constant and a device")
    values = positional[0].value
    number = _number(values)
    if number is not None and argument(call, "device") is not None:
        dtype = argument(call, "dtype")
        named = source.qualified(dtype.value) if dtype else None
        if dtype and named not in REAL | (WHOLE if isinstance(number, int) else set()):
            raise NotSure("its dtype may not hold the number")
        if not isinstance(call.func, cst.Attribute) or argument(call, "requires_grad"):
            raise NotSure("it is not made by torch.tensor() under this name, or has gradients")
        return [source.rewrite(call, "made on the GPU", _on_gpu)]
    if not _is_constant(values):
        raise NotSure(f"{source.code(values)} is not a constant; copy it from pinned memory")
    return _before_the_loop(source, call, chain)


def _chain(source: SourceFile, call: cst.Call) -> list[cst.BaseExpression]:
    """Return what is made of a tensor where it stands: `.view(1, 3)`, `[None]`, `.to(device)`; the innermost first."""
    chain: list[cst.BaseExpression] = []
    inner: cst.BaseExpression = call
    while True:
        parent = source.parent(inner)
        around = source.parent(parent) if isinstance(parent, cst.Attribute) and parent.value is inner else None
        if isinstance(around, cst.Call) and around.func is parent and _method(around) in KEPT:
            inner = around
        elif isinstance(parent, cst.Subscript) and parent.value is inner and _only_shapes(parent):
            inner = parent
        else:
            return chain
        chain.append(inner)


def _method(node: cst.BaseExpression) -> str | None:
    return node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None


def _only_shapes(node: cst.Subscript) -> bool:
    """Return whether a subscript adds axes and takes all: `[None, :, None]`."""
    return all(_takes_all(each.slice) for each in node.slice)


def _takes_all(index: cst.BaseSlice) -> bool:
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == "None"


def _number(node: cst.BaseExpression) -> int | float | None:
    """Return the value of a literal number, if every kind of tensor holds it alike."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = _number(node.expression)
        return None if value is None else -value
    if isinstance(node, cst.Integer | cst.Float):
        value = node.evaluated_value
        return value if isinstance(value, int | float) and abs(value) <= LARGEST else None
    return None


def _is_constant(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.List | cst.Tuple):
        return all(isinstance(each, cst.Element) and _is_constant(each.value) for each in node.elements)
    return _number(node) is not None


def _on_gpu(node: cst.CSTNode) -> cst.CSTNode:
    """Return `torch.full((), 0.5, device=device)` for `torch.tensor(0.5, device=device)`."""
    call = cst.ensure_type(node, cst.Call)
    place = next(number for number, each in enumerate(call.args) if not each.keyword)
    shape = cst.Arg(cst.Tuple([]), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    arguments = [*call.args[:place], shape, *call.args[place:]]
    function = cst.ensure_type(call.func, cst.Attribute)
    return call.with_changes(func=function.with_changes(attr=cst.Name("full")), args=arguments)


def _before_the_loop(source: SourceFile, call: cst.Call, chain: list[cst.BaseExpression]) -> list[Rewrite]:
    statement = source.statement(call)
    small = statement.body[0]
    whole = chain[-1] if chain else call
    if not (isinstance(small, cst.Assign) and len(small.targets) == 1 and small.value is whole):
        raise NotSure("the constant has no name of its own; make it before the loop")
    name = small.targets[0].target
    loop = source.loop(call)
    if not isinstance(name, cst.Name) or loop is None:
        raise NotSure("no loop of the same function makes the constant; make it once, and pass it on")
    if source.parent(statement) is not loop.body:
        raise NotSure("not every step makes the same constant")
    uses = uses_of(source, name)
    if len(uses.set) != 1 or uses.changed:
        raise NotSure(f"{name.value} is set or changed in several places")
    _check_reads(source, uses.read, loop, source.line(small))
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
    """Raise NotSure unless a tensor that is made in a line is only read, behind it and within the loop."""
    if any(isinstance(each, cst.Call) and last_name(each) in SETTERS for each in walk(loop)):
        raise NotSure("the loop sets the device, or the type of tensors")
    for node in read:
        if not source.is_within(node, loop.body) or source.line(node) <= made:
            raise NotSure(f"{node.value} is used outside of the loop, or before it is made")
        if not _only_reads(source, node):
            raise NotSure(f"line {source.line(node)} may change {node.value}, or keep it")


def _check_fixed(source: SourceFile, node: cst.BaseExpression, loop: Loop, keyword: str) -> None:
    """Raise NotSure unless an expression is the same before the loop: a constant, a type of torch, a variable."""
    if keyword == "requires_grad":
        raise NotSure("the constant has gradients")
    if isinstance(node, cst.SimpleString) or (source.qualified(node) or "").startswith("torch."):
        return
    if isinstance(node, cst.Name):
        bound = [each for each in walk(loop) if isinstance(each, cst.Name) and each.value == node.value]
        targets = [each for each in bound if not _is_argument(source, each)]
        if not targets and not is_set_by_others(source, node.value):
            return
    raise NotSure(f"{keyword}={source.code(node)} may change in the loop")


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
