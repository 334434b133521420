"""Find where the host reads a number of the GPU, `x.item()` or `float(x)`, and whether it is real or whole."""

from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import argument, last_name
from pinprof.fix.core.rewrite import NotSafe, NotThisForm, Refusal, parts_of, walk
from pinprof.fix.core.source import SourceFile, is_seldom
from pinprof.fix.core.uses import bound_to, check_is_builtin, is_builtin, is_target, uses_of

TENSOR = m.SaveMatchedNode(m.DoNotCare(), "tensor")
ITEM = m.Call(m.Attribute(TENSOR, m.Name("item")), [])
NUMBER = m.Call(m.Name("float") | m.Name("int"), [m.Arg(TENSOR, keyword=None, star="")])
HOST = m.SimpleString("'cpu'") | m.SimpleString('"cpu"')
TO_HOST = m.Call(m.Attribute(attr=m.Name("detach") | m.Name("cpu")), []) | m.Call(
    m.Attribute(attr=m.Name("to")), [m.Arg(HOST | m.Call(args=[m.Arg(HOST)]))]
)
"""Calls before the read that leave a number as it is: `x.detach()`, `x.cpu()`, `x.to(torch.device("cpu"))`."""
CONSTANTS = {"None", "True", "False"}
ARRAYS = {"numpy", "tolist", "__array__"}
"""Methods that turn a tensor into an object of the host."""


class Read(NamedTuple):
    """An expression that reads a number of the GPU."""

    node: cst.Call
    tensor: cst.BaseExpression
    """The tensor, without calls that only bring it to the host."""
    function: str
    """`item`, `float` or `int`."""


def read_at(source: SourceFile, line: int) -> Read:
    """Return the expression on a line that reads a number. Raises Refusal unless there is exactly one."""
    reads = [read for call in source.calls(line) if (read := as_read(call))]
    if len(reads) > 1:
        raise NotSafe(f"the line reads {len(reads)} numbers, and each needs a line of its own")
    if not reads:
        raise source.not_one(0, ".item() or float()")
    if reads[0].function != "item":
        check_is_builtin(source, reads[0].function)
    return reads[0]


def as_read(call: cst.Call) -> Read | None:
    """Return what a call reads; None if it reads nothing, or a call within it does."""
    if parts := parts_of(call, ITEM):
        return Read(call, _bare(parts["tensor"]), "item")
    if parts := parts_of(call, NUMBER):
        value = parts["tensor"]
        if isinstance(value, cst.Call) and as_read(value):
            return None  # float(x.item()): the inner one reads
        return Read(call, _bare(value), cst.ensure_type(call.func, cst.Name).value)
    return None


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a tensor without the `.detach()` and `.cpu()` behind it."""
    if m.matches(node, TO_HOST) and not node.lpar:
        return _bare(cst.ensure_type(cst.ensure_type(node, cst.Call).func, cst.Attribute).value)
    return node


def check_is_tensor(source: SourceFile, read: Read) -> None:
    """Raise Refusal if what is read may not be a tensor of the GPU."""
    code = source.code(read.tensor)
    for node in walk(read.tensor):
        if isinstance(node, cst.Attribute) and node.attr.value in {"cpu", "numpy", "tolist", "item"}:
            raise NotSafe(f"{code} is on the host before it is read")
        if isinstance(node, cst.Subscript | cst.Await | cst.NamedExpr | cst.IfExp | cst.BooleanOperation):
            raise NotSafe(f"{code} may not be a tensor")
    is_other = may_be_foreign(source, read.tensor)
    if isinstance(read.tensor, cst.Name):
        is_other = is_other or _may_be_number(source, read.tensor)
    if is_other or (read.function != "item" and not _is_tensor(source, read.tensor, read.node)):
        raise NotSafe(f"{code} may not be a tensor")


def may_be_foreign(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression may be an array, or an object of one of the program's own classes."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not source.qualified(node.func):
        node = node.func.value
    match node:
        case cst.Name():
            values = [value for value in values_of(source, node) if isinstance(value, cst.Call)]
            return any(may_be_foreign(source, value) for value in values if node.value not in source.names_in(value))
        case cst.BinaryOperation():
            return may_be_foreign(source, node.left) or may_be_foreign(source, node.right)
        case cst.Call():
            named = source.meanings(node.func)
            return any(not name.startswith("torch") for name in named) or _makes_other(source, last_name(node))
    return False


def _makes_other(source: SourceFile, function: str) -> bool:
    """Return whether a name is a class of the file, or a function of the file that makes arrays."""
    for node in source.nodes:
        if isinstance(node, cst.ClassDef) and node.name.value == function:
            return True
        if isinstance(node, cst.FunctionDef) and node.name.value == function:
            names = [inner for inner in walk(node) if isinstance(inner, cst.Name | cst.Attribute)]
            return any(source.code(name) in ARRAYS or _is_of_numpy(source, name) for name in names)
    return False


def _is_of_numpy(source: SourceFile, node: cst.CSTNode) -> bool:
    return any(name.startswith("numpy") for name in source.meanings(node))


def _may_be_number(source: SourceFile, name: cst.Name) -> bool:
    """Return whether a variable is also set to what is not a tensor: `loss = 0` or `loss = None`."""
    return any(_has_number(source, value) for value in values_of(source, name))


def _has_number(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Return whether an expression is, or may be, a number, a text or a constant: `0.0 if skip else loss`."""
    if isinstance(value, cst.IfExp | cst.BooleanOperation):
        return any(isinstance(part, cst.BaseExpression) and _has_number(source, part) for part in value.children)
    return isinstance(value, cst.BaseNumber | cst.BaseString) or source.code(value) in CONSTANTS


def values_of(source: SourceFile, name: cst.Name) -> list[cst.BaseExpression]:
    """Return all values that are assigned or added to a variable; none if other code may set it."""
    try:
        uses = uses_of(source, name)
    except Refusal:
        return []
    return [*(value for _, value in uses.set), *(use.value for use in uses.changed)]


def statement_of(source: SourceFile, read: Read) -> cst.BaseSmallStatement:
    """Return the statement that reads a number. Raises NotThisForm in the head of a compound one."""
    try:
        return source.statement(read.node).body[0]
    except NotThisForm:
        raise other_form(source, read) from None


def other_form(source: SourceFile, read: Read) -> NotThisForm:
    """Return the refusal for a line that does with its number what no fix can change."""
    loop = source.loop(read.node)
    if loop is not None and is_seldom(source, read.node, loop):
        return NotThisForm("the program already reads it only every few steps")
    return NotThisForm(_use_of(source, read.node))


def _use_of(source: SourceFile, node: cst.CSTNode) -> str:
    """Return what the statement around a number does with it, and the advice for that."""
    for outer in source.ancestors(node):
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
            case cst.BaseStatement():
                break
    return "the number goes neither into a sum nor into a list or a variable of its own"


COMPARING = {"eq", "ne", "gt", "lt", "ge", "le"}
REAL = {"mean", "norm", "std", "var", "float", "double", "half", "bfloat16", "softmax", "log_softmax", "sigmoid"}
"""Methods of tensors that return real numbers, whatever they are called on."""
METHODS = COMPARING | REAL | {"sum", "all", "any", "argmax", "argmin", "count_nonzero", "prod", "abs", "max", "min"}
"""Methods of tensors that return tensors."""
LOSSES = "torch.nn.functional."
"""The module of loss functions, which return real numbers."""
OF_ALL = m.SimpleString(m.MatchRegex("['\"](mean|sum|batchmean)['\"]"))
CRITERIA = "torch.nn."
"""The module of loss classes, such as `nn.CrossEntropyLoss()`."""
PLACED = {"to", "cuda", "cpu"}
SIZES = {"numel", "nelement"}
WAYS_OUT = (cst.Break, cst.Continue, cst.Return, cst.Raise, cst.Yield)
COMPLEX_WORDS = ("complex", "fft", "stft", "polar", "cfloat", "cdouble")
"""Words of programs in which a mean may be a complex number."""


def is_real(source: SourceFile, tensor: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether a tensor has real numbers: a mean, a loss of torch, or one on which `backward` is called.

    `at` is a node of the function in which it is read.
    """
    if isinstance(tensor, cst.Name):
        calls = _backward_of(source, tensor.value, at)
        return any(_means_the_same(source, tensor, call) for call in calls) or _only_has_losses(source, tensor)
    return isinstance(tensor, cst.Call) and _returns_real(source, tensor)


def _returns_real(source: SourceFile, call: cst.Call) -> bool:
    named = source.qualified(call.func) or ""
    if isinstance(call.func, cst.Name) and not named:
        return _is_criterion(source, call.func)
    if named.startswith(LOSSES):
        return ("loss" in named or named.endswith("entropy")) and _has_one_number(call)
    is_method = isinstance(call.func, cst.Attribute) and not named and last_name(call) in REAL
    return is_method and not (last_name(call) == "mean" and _has_complex_numbers(source))


def _has_one_number(loss: cst.Call) -> bool:
    """Return whether a loss is one number for all samples, not one for each as with `reduction="none"`."""
    reduction = argument(loss, "reduction")
    return (reduction is None or m.matches(reduction.value, OF_ALL)) and not argument(loss, "reduce")


def _has_complex_numbers(source: SourceFile) -> bool:
    return bool(source.mentions(COMPLEX_WORDS)) or any(isinstance(node, cst.Imaginary) for node in source.nodes)


def _means_the_same(source: SourceFile, tensor: cst.Name, call: cst.Call) -> bool:
    """Return whether a variable stays real between its read and the call of `backward` on it."""
    first, last = sorted((source.line(tensor), source.line(call)))
    bound = [node for node in source.nodes_named[tensor.value] if first < source.line(node) < last]
    return all(_stays_real(source, node) for node in bound)


def _stays_real(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a use of a variable leaves it real: one that reads it, or sets it to `loss.float()`."""
    if (binding := bound_to(source, node)) is None:
        return not is_target(source, node)
    return isinstance(binding[0], cst.Call) and _returns_real(source, binding[0])


def _backward_of(source: SourceFile, name: str, at: cst.CSTNode) -> list[cst.Call]:
    """Return the calls in a function of `name.backward()`, or of `scaler.scale(name).backward()`."""
    calls = (node for node in walk(source.scope(at)) if isinstance(node, cst.Call) and last_name(node) == "backward")
    scaled = m.Call(m.Attribute(attr=m.Name("scale")), [m.Arg(m.Name(name)), m.ZeroOrMore()])
    return [call for call in calls if m.matches(call.func, m.Attribute(m.Name(name) | scaled))]


def _is_tensor(source: SourceFile, tensor: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether what `float()` or `int()` reads is always a tensor, never a number of Python."""
    if isinstance(tensor, cst.Name):
        calls = _backward_of(source, tensor.value, at)
        return _only_has_losses(source, tensor) or any(_always_run_together(source, call, at) for call in calls)
    if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and not source.qualified(tensor.func):
        return last_name(tensor) in METHODS
    return is_real(source, tensor, at) or is_count(source, tensor)


def _always_run_together(source: SourceFile, call: cst.Call, at: cst.CSTNode) -> bool:
    """Return whether a call runs whenever a node does: in the same or an outer block, with no way out between."""
    line = next(outer for outer in source.ancestors(call) if isinstance(outer, cst.BaseStatement))
    block = source.parent(line)
    other = next((outer for outer in (at, *source.ancestors(at)) if source.parent(outer) is block), None)
    if other is None or not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    places = [index for index, part in enumerate(block.body) if part is other or part is line]
    between = block.body[places[0] : places[-1] + 1]
    return not any(isinstance(node, WAYS_OUT) for statement in between for node in walk(statement))


def _only_has_losses(source: SourceFile, name: cst.Name) -> bool:
    """Return whether every value of a variable is a loss: of a function or a class of torch."""
    values = values_of(source, name)
    return bool(values) and all(isinstance(value, cst.Call) and _returns_real(source, value) for value in values)


def _is_criterion(source: SourceFile, name: cst.Name) -> bool:
    """Return whether a name stands for an object of torch's loss classes, everywhere in the file."""
    values: list[cst.BaseExpression] = []
    for node in source.nodes_named.get(name.value, ()):
        parent = source.parent(node)
        if isinstance(parent, cst.AssignTarget):
            values.append(cst.ensure_type(source.parent(parent), cst.Assign).value)
        elif isinstance(parent, cst.Param | cst.Element) or is_target(source, node):
            return False
    return bool(values) and all(_makes_criterion(source, value) for value in values)


def _makes_criterion(source: SourceFile, value: cst.BaseExpression) -> bool:
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in PLACED:
        value = value.func.value
    if not isinstance(value, cst.Call):
        return False
    named = source.qualified(value.func) or ""
    return named.startswith(CRITERIA) and named.endswith("Loss") and _has_one_number(value)


def is_count(source: SourceFile, tensor: cst.BaseExpression) -> bool:
    """Return whether a tensor is a sum of comparisons: `(a == b).sum()`, `a.eq(b).sum()`, `torch.sum(a == b)`."""
    if not (isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and last_name(tensor) == "sum"):
        return False
    if source.qualified(tensor.func) == "torch.sum":
        return len(tensor.args) == 1 and not tensor.args[0].keyword and _compares(tensor.args[0].value)
    return not tensor.args and _compares(tensor.func.value)


def _compares(of: cst.BaseExpression) -> bool:
    if isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute):
        is_same = last_name(of) in {"cpu", "view", "squeeze", "detach", "long"}
        return last_name(of) in COMPARING or (is_same and _compares(of.func.value))
    return isinstance(of, cst.Comparison)


def is_host_number(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression is certainly a number of the host: an integer, a length, or a size."""
    if isinstance(node, cst.Call):
        is_size = last_name(node) in SIZES or (last_name(node) == "size" and len(node.args) == 1)
        is_length = isinstance(node.func, cst.Name) and node.func.value == "len" and is_builtin(source, "len")
        is_of_tensor = isinstance(node.func, cst.Attribute) and not may_be_foreign(source, node.func.value)
        return is_length or (is_of_tensor and is_size)
    if isinstance(node, cst.Name):
        values = values_of(source, node)
        return bool(values) and all(not isinstance(part, cst.Name) and is_host_number(source, part) for part in values)
    return isinstance(node, cst.Integer) or m.matches(node, ONE_SIZE)


ONE_SIZE = m.Subscript(m.Attribute(attr=m.Name("shape")), [m.SubscriptElement(m.Index())])
"""`x.shape[0]`, not a slice."""
