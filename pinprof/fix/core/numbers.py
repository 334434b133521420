"""Numbers of the GPU that the host reads, `x.item()` and `float(x)`: which there are, and of what kind they are."""

from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.rewrite import NotSafe, NotThisForm, Refusal, parts_of, walk
from pinprof.fix.core.source import SourceFile, is_seldom
from pinprof.fix.core.uses import check_is_builtin, is_builtin, is_target, uses_of

TENSOR = m.SaveMatchedNode(m.DoNotCare(), "tensor")
ITEM = m.Call(m.Attribute(TENSOR, m.Name("item")), [])
NUMBER = m.Call(m.Name("float") | m.Name("int"), [m.Arg(TENSOR, keyword=None, star="")])
SAME = {"cpu", "detach"}
"""Methods that leave a number as it is, before it is read."""
WORDS = {"None", "True", "False"}


class Read(NamedTuple):
    """An expression that reads a number of the GPU."""

    node: cst.Call
    tensor: cst.BaseExpression
    """What is read, without what brings it to the host."""
    function: str
    """`item`, `float` or `int`."""


def read_at(source: SourceFile, line: int) -> Read:
    """Return the only expression on a line that reads a number. Raises Refusal if there are several, or none."""
    found = [read for call in source.calls(line) if (read := as_read(call))]
    if len(found) > 1:
        raise NotSafe(f"the line reads {len(found)} numbers, and each needs a line of its own")
    if not found:
        raise source.not_one(0, ".item() or float()")
    if found[0].function != "item":
        check_is_builtin(source, found[0].function)
    return found[0]


def as_read(call: cst.Call) -> Read | None:
    """Return what a call reads; None for one that reads nothing, or leaves that to a call within it."""
    if found := parts_of(call, ITEM):
        return Read(call, _bare(found["tensor"]), "item")
    if found := parts_of(call, NUMBER):
        value = found["tensor"]
        if isinstance(value, cst.Call) and as_read(value):
            return None  # float(x.item()): the inner one reads
        return Read(call, _bare(value), cst.ensure_type(call.func, cst.Name).value)
    return None


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a tensor without the `.detach()` and `.cpu()` behind it."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.lpar:
        is_same = is_copy_to_host(node) or (node.func.attr.value in SAME and not node.args)
        return _bare(node.func.value) if is_same else node
    return node


def is_copy_to_host(call: cst.Call) -> bool:
    """Return whether a call is `x.cpu()` or `x.to("cpu")`."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "to":
        return isinstance(call.func, cst.Attribute) and call.func.attr.value == "cpu" and not call.args
    given = call.args[0].value if len(call.args) == 1 and not call.args[0].star else None
    if isinstance(given, cst.Call) and len(given.args) == 1 and last_name(given) == "device":
        given = given.args[0].value
    return isinstance(given, cst.SimpleString) and given.evaluated_value == "cpu"


def check_is_tensor(source: SourceFile, read: Read) -> None:
    """Raise Refusal where what is read may be no tensor of the GPU."""
    for node in walk(read.tensor):
        if isinstance(node, cst.Attribute) and node.attr.value in {"cpu", "numpy", "tolist", "item"}:
            raise NotSafe(f"{source.code(read.tensor)} is on the host before it is read")
        if isinstance(node, cst.Subscript | cst.Await | cst.NamedExpr | cst.IfExp | cst.BooleanOperation):
            raise NotSafe(f"{source.code(read.tensor)} may be no tensor")
    if isinstance(read.tensor, cst.Name) and _may_be_number(source, read.tensor):
        raise NotSafe(f"{read.tensor.value} may be no tensor")
    if read.function != "item" and not is_tensor(source, read.tensor, read.node):
        raise NotSafe(f"{source.code(read.tensor)} may be no tensor")


def _may_be_number(source: SourceFile, name: cst.Name) -> bool:
    """Return whether a variable is also set to what is no tensor: `loss = 0` or `loss = None`."""
    try:
        uses = uses_of(source, name)
    except Refusal:
        return False
    return any(_has_number(source, value) for _, value in uses.set)


def _has_number(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Return whether an expression is, or may be, a number, a text or a word: `0.0 if skip else loss`."""
    if isinstance(value, cst.IfExp):
        return _has_number(source, value.body) or _has_number(source, value.orelse)
    if isinstance(value, cst.BooleanOperation):
        return _has_number(source, value.left) or _has_number(source, value.right)
    return isinstance(value, cst.BaseNumber | cst.BaseString) or source.code(value) in WORDS


def statement_of(source: SourceFile, read: Read) -> cst.BaseSmallStatement:
    """Return the statement that reads a number. Raises NotThisForm in the head of a compound one."""
    try:
        return source.statement(read.node).body[0]
    except NotThisForm:
        raise other_form(source, read) from None


def other_form(source: SourceFile, read: Read) -> NotThisForm:
    """Return that no change is for what a line does with the number that it reads."""
    return NotThisForm(_why_it_waits(source, read))


def _why_it_waits(source: SourceFile, read: Read) -> str:
    loop = source.loop(read.node)
    if loop is not None and is_seldom(source, read.node, loop):
        return "the program already reads it only every few steps"
    return _use_of(source, read.node) or "the number goes neither into a sum nor into a list or a variable of its own"


def _use_of(source: SourceFile, node: cst.CSTNode) -> str | None:
    """Return what the statement around a number does with it; None for what does nothing."""
    for outer in source.around(node):
        match outer:
            case cst.Call(func=cst.Attribute(value=cst.BaseString())):
                continue  # "{}".format(x)
            case cst.Call():
                return f"the number goes to {source.code(outer.func)}() in each step: call it every N steps"
            case cst.Return():
                return "the number is returned, and the caller may use it in each step: return the tensor"
            case cst.Dict() | cst.List():
                return "the number goes into an object with others, which may be used in each step"
            case cst.If() | cst.While() | cst.Assert():
                return "a decision in each step depends on the value"
        if isinstance(outer, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return None
    return None


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
        return any(source.qualified(arg.value) in REAL_TYPES for arg in call.args)
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
    line = next(outer for outer in source.around(call) if isinstance(outer, cst.BaseStatement))
    block = source.parent(line)
    mine = next((outer for outer in (at, *source.around(at)) if source.parent(outer) is block), None)
    if mine is None or not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    body = list(block.body)
    first, last = (next(n for n, statement in enumerate(body) if statement is node) for node in (mine, line))
    return not any(isinstance(node, WAYS_OUT) for statement in body[first : last + 1] for node in walk(statement))


def _only_has_losses(source: SourceFile, tensor: cst.Name, at: cst.CSTNode) -> bool:
    """Return whether a variable is only ever a loss: of a function of torch, or of a criterion that torch made."""
    try:
        uses = uses_of(source, tensor)
    except Refusal:
        return False
    values = [value for _, value in uses.set]
    return bool(values) and not uses.changed and all(_is_loss(source, value, at) for value in values)


def _is_loss(source: SourceFile, value: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether an expression is a loss of torch, or one with numbers added or multiplied."""
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, ARITHMETIC):
        return _is_loss(source, value.left, at) or _is_loss(source, value.right, at)
    return isinstance(value, cst.Call) and _returns_real(source, value, at)


def _is_criterion(source: SourceFile, name: cst.Name) -> bool:
    """Return whether a name stands for a loss that torch made, everywhere in the file."""
    made: list[cst.BaseExpression] = []
    for node in source.named.get(name.value, ()):
        parent = source.parent(node)
        if isinstance(parent, cst.AssignTarget):
            made.append(cst.ensure_type(source.parent(parent), cst.Assign).value)
        elif isinstance(parent, cst.Param | cst.Element) or is_target(source, node):
            return False
    return bool(made) and all(_makes_criterion(source, value) for value in made)


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
    values = [value for _, value in uses.set] + [use.value for use in uses.changed]
    return bool(uses.set) and all(not isinstance(value, cst.Name) and is_host_number(source, value) for value in values)


REAL_FORMATS = "eEfFgG%"
"""How formats end that show 0 and 0.0 alike."""


def has_real_format(node: cst.CSTNode | None) -> bool:
    """Return whether an f-string shows what is in a part of it as a real number: `{x:.3f}`."""
    if not (isinstance(node, cst.FormattedStringExpression) and node.format_spec):
        return False
    last = node.format_spec[-1]
    return isinstance(last, cst.FormattedStringText) and last.value[-1] in REAL_FORMATS
