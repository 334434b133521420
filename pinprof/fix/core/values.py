"""Of what kind numbers are, as far as the source shows it: whole, real, or on the host."""

import libcst as cst

from pinprof.fix.core.rewrite import Refusal, walk
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.uses import is_builtin, uses_of

COMPARING = {"eq", "ne", "gt", "lt", "ge", "le"}
SUM = "sum"
REAL = {"mean", "norm", "std", "var", "float", "double", "half", "bfloat16", "softmax", "log_softmax", "sigmoid"}
"""Methods of tensors that return real numbers, whatever they are called on."""
KEEPING = {"sum", "abs", "clone", "detach", "cpu", "cuda", "squeeze", "max", "min", "neg", "square", "contiguous"}
"""Methods that return real numbers of real numbers."""
REAL_TYPES = {f"torch.{name}" for name in ("float", "float32", "double", "float64", "half", "float16", "bfloat16")}
LOSSES = "torch.nn.functional."
"""What is called there for a loss returns real numbers."""
CRITERIA = "torch.nn."
"""And what is made there for one: `nn.CrossEntropyLoss()`."""
ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
PLACED = {"to", "cuda", "cpu"}
SIZES = {"numel", "nelement"}
METHODS = COMPARING | REAL | KEEPING | {SUM, "all", "any", "argmax", "argmin", "count_nonzero", "prod"}
"""Methods of tensors that return tensors."""
WAYS_OUT = (cst.Break, cst.Continue, cst.Return, cst.Raise, cst.Yield)
MANY_PARTS = ("complex", "fft", "stft")
"""Words of programs whose means may be complex numbers."""


def is_real(source: SourceFile, tensor: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether a tensor is of real numbers: a mean, a loss of torch, or what gradients are taken of.

    `at` is a node of the function in which it is read.
    """
    if isinstance(tensor, cst.Call):
        return _returns_real(source, tensor, at)
    if isinstance(tensor, cst.Attribute):
        return tensor.attr.value == "data" and is_real(source, tensor.value, at)
    return isinstance(tensor, cst.Name) and (_has_gradients(source, tensor, at) or _only_has_losses(source, tensor, at))


def _returns_real(source: SourceFile, call: cst.Call, at: cst.CSTNode) -> bool:
    named = source.qualified(call.func) or ""
    if named.startswith(LOSSES) and ("loss" in named or named.endswith("entropy")):
        return True
    if isinstance(call.func, cst.Name):
        return _is_criterion(source, call.func)
    if not isinstance(call.func, cst.Attribute) or named:
        return False
    method = call.func.attr.value
    if method in {"type", "to"}:
        return any(source.qualified(each.value) in REAL_TYPES for each in call.args)
    if method == "mean" and source.mentions(MANY_PARTS):
        return is_real(source, call.func.value, at)
    keeps = method in KEEPING and not call.args and is_real(source, call.func.value, at)
    return method in REAL or keeps


def _has_gradients(source: SourceFile, tensor: cst.Name, at: cst.CSTNode) -> bool:
    return any(isinstance(node, cst.Call) and _is_backward_of(node, tensor.value) for node in walk(source.scope(at)))


def _is_backward_of(call: cst.Call, name: str) -> bool:
    """Return whether a call is `name.backward()` or `scaler.scale(name).backward()`, or asks something to do that."""
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"):
        return False
    of = call.func.value
    if isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute) and of.func.attr.value == "scale" and of.args:
        of = of.args[0].value
    return isinstance(of, cst.Name) and of.value == name


def is_tensor(source: SourceFile, tensor: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether what `float()` or `int()` reads is a tensor each time, not a number of Python now and then."""
    if isinstance(tensor, cst.Name):
        return _only_has_losses(source, tensor, at) or any(
            isinstance(node, cst.Call) and _is_backward_of(node, tensor.value) and _is_beside(source, node, at)
            for node in walk(source.scope(at))
        )
    if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and not source.qualified(tensor.func):
        return tensor.func.attr.value in METHODS
    return is_real(source, tensor, at) or is_count(source, tensor)


def _is_beside(source: SourceFile, call: cst.Call, at: cst.CSTNode) -> bool:
    """Return whether a call runs whenever a node does: in the same block or one around it, with no way out between."""
    line = next(each for each in source.around(call) if isinstance(each, cst.BaseStatement))
    block = source.parent(line)
    mine = next((each for each in (at, *source.around(at)) if source.parent(each) is block), None)
    if mine is None or not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    body = list(block.body)
    first, last = (next(n for n, each in enumerate(body) if each is node) for node in (mine, line))
    return not any(isinstance(node, WAYS_OUT) for each in body[first : last + 1] for node in walk(each))


def _only_has_losses(source: SourceFile, tensor: cst.Name, at: cst.CSTNode) -> bool:
    """Return whether a variable is only ever a loss: of a function of torch, or of a criterion that torch made."""
    try:
        uses = uses_of(source, tensor)
    except Refusal:
        return False
    values = [value for _, value in uses.set]
    return bool(values) and not uses.changed and all(_is_loss(source, each, at) for each in values)


def _is_loss(source: SourceFile, value: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether an expression is a loss of torch, or one with numbers added or multiplied."""
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, ARITHMETIC):
        return _is_loss(source, value.left, at) or _is_loss(source, value.right, at)
    return isinstance(value, cst.Call) and _returns_real(source, value, at)


def _is_criterion(source: SourceFile, name: cst.Name) -> bool:
    """Return whether a name stands for a loss that torch made, everywhere in the file."""
    made = [
        value
        for node in source.nodes
        if isinstance(node, cst.Name) and node.value == name.value
        for value in _bound_anywhere(source, node)
    ]
    return bool(made) and all(value is not None and _makes_criterion(source, value) for value in made)


def _bound_anywhere(source: SourceFile, node: cst.Name) -> list[cst.BaseExpression | None]:
    """Return what a use of a name binds to it: nothing for a read, None for what is no assignment of one value."""
    parent = source.parent(node)
    if isinstance(parent, cst.AssignTarget):
        return [cst.ensure_type(source.parent(parent), cst.Assign).value]
    if isinstance(parent, cst.Attribute | cst.Arg) or (isinstance(parent, cst.Call) and parent.func is node):
        return []
    if isinstance(parent, cst.BinaryOperation | cst.Return | cst.Expr | cst.Comparison):
        return []
    return [None]


def _makes_criterion(source: SourceFile, value: cst.BaseExpression) -> bool:
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in PLACED:
        value = value.func.value
    named = source.qualified(value.func) or "" if isinstance(value, cst.Call) else ""
    return named.startswith(CRITERIA) and named.endswith("Loss")


def is_count(source: SourceFile, tensor: cst.BaseExpression) -> bool:
    """Return whether a tensor is a sum of comparisons: `(a == b).sum()`, `a.eq(b).sum()`, `torch.sum(a == b)`."""
    if not (isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute)):
        return False
    if tensor.func.attr.value != SUM:
        return False
    if source.qualified(tensor.func) == "torch.sum":
        return len(tensor.args) == 1 and not tensor.args[0].keyword and _compares(tensor.args[0].value)
    return not tensor.args and _compares(tensor.func.value)


def _compares(of: cst.BaseExpression) -> bool:
    if isinstance(of, cst.Comparison):
        return True
    if not (isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute)):
        return False
    method = of.func.attr.value
    return method in COMPARING or (method in {"cpu", "view", "squeeze", "detach", "long"} and _compares(of.func.value))


def is_host_number(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a number of the host for certain: a whole one, a length, a size."""
    if isinstance(node, cst.Call):
        function = node.func
        if isinstance(function, cst.Attribute):
            return function.attr.value in SIZES or (function.attr.value == "size" and len(node.args) == 1)
        return isinstance(function, cst.Name) and function.value == "len" and is_builtin(source, "len")
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape" and _is_one(node)
    return isinstance(node, cst.Integer) or (isinstance(node, cst.Name) and _counts(source, node))


def _is_one(node: cst.Subscript) -> bool:
    """Return whether a subscript takes one element, not a slice."""
    return len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)


def _counts(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a variable only ever has such numbers."""
    try:
        uses = uses_of(source, node)
    except Refusal:
        return False
    values = [value for _, value in uses.set] + [each.value for each in uses.changed]
    return bool(uses.set) and all(not isinstance(each, cst.Name) and is_host_number(source, each) for each in values)


REAL_FORMATS = "eEfFgG%"
"""How formats end that show 0 and 0.0 alike."""


def has_real_format(node: cst.CSTNode | None) -> bool:
    """Return whether an f-string shows what is in a part of it as a real number: `{x:.3f}`."""
    if not (isinstance(node, cst.FormattedStringExpression) and node.format_spec):
        return False
    last = node.format_spec[-1]
    return isinstance(last, cst.FormattedStringText) and last.value[-1] in REAL_FORMATS
