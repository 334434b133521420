"""Constants that each step makes on the host and copies to the GPU."""

from itertools import takewhile

import libcst as cst

from pinprof.fix.calls import argument, last_name
from pinprof.fix.chains import chain_of, is_move
from pinprof.fix.filled import full_there, number_of
from pinprof.fix.names import is_set_by_others, uses_of
from pinprof.fix.rewrite import NotSafe, Refusal, Rewrite, walk
from pinprof.fix.source import Loop, SourceFile
from pinprof.fix.waits import check_no_other, check_runs_in_order

SAFE_CONSTANT = "No code outside of the source shown writes to the constant."
MAKERS = {"torch.tensor", "torch.as_tensor"}
KNOWN = {"device", "dtype", "requires_grad"}
SETTERS = {"set_device", "set_default_device", "set_default_dtype", "set_default_tensor_type"}


def made_once_or_there(source: SourceFile, line: int) -> list[Rewrite]:
    """Return the rewrites for a tensor of constants: made before the loop, or on the GPU if it is one number.

    Raises Refusal.
    """
    calls = [call for call in source.calls(line) if source.qualified(call.func) in MAKERS]
    if len(calls) != 1:
        raise NotSafe(source.names(len(calls), "torch.tensor by its imported name"))
    call = calls[0]
    check_no_other(source)
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
        return _before_the_loop(source, call, chain)
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


def _before_the_loop(source: SourceFile, call: cst.Call, chain: list[cst.BaseExpression]) -> list[Rewrite]:
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
    uses = uses_of(source, name)
    if len(uses.set) != 1 or uses.changed:
        raise NotSafe(f"{name.value} is set or changed in several places")
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
