"""Sums of numbers of the GPU that are read in each step, and used every so many: they stay on the GPU."""

from typing import Literal, NamedTuple, TypeAlias

import libcst as cst

from pinprof.fix.names import Uses, check_is_not_shown, check_waits_are_not_needed, is_seldom, uses_of
from pinprof.fix.rewrite import NotSure, Rewrite, atom, call_of, walk
from pinprof.fix.source import Loop, SourceFile

Kind: TypeAlias = Literal["float", "int"]
COMPARING = {"eq", "ne", "gt", "lt", "ge", "le"}
OF_MANY = {"sum"}
REAL = {"mean", "norm", "std", "var"}
APART: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.DivideAssign: cst.Divide,
    cst.MultiplyAssign: cst.Multiply,
}
"""What is done to a sum after its loop."""
LOSSES = "torch.nn.functional."
"""What is called there for a loss returns real numbers."""


class Read(NamedTuple):
    """An expression that reads a number of the GPU: `x.item()` or `float(x)`."""

    node: cst.Call
    tensor: cst.BaseExpression


class _Sum(NamedTuple):
    total: cst.Name
    value: cst.BaseExpression
    """What is added."""
    node: cst.CSTNode
    """The statement that adds."""


def read_at(source: SourceFile, line: int) -> Read:
    """Return the only expression on a line that reads a number. Raises NotSure if there are several, or none."""
    found = [read for call in source.calls(line) if (read := _as_read(call))]
    if len(found) != 1:
        raise NotSure(source.names(len(found), ".item() or float()"))
    return found[0]


def _as_read(call: cst.Call) -> Read | None:
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "item" and not call.args:
        return Read(call, call.func.value)
    is_number = isinstance(call.func, cst.Name) and call.func.value in {"float", "int"}
    if is_number and len(call.args) == 1 and not call.args[0].keyword and not call.args[0].star:
        if isinstance(call.args[0].value, cst.Call) and _as_read(call.args[0].value):
            return None  # float(x.item()): the inner one reads
        return Read(call, call.args[0].value)
    return None


def kept_on_gpu(source: SourceFile, line: int) -> tuple[list[Rewrite], bool]:
    """Return the rewrites that keep a sum on the GPU, and whether each step still waits. Raises NotSure."""
    read = read_at(source, line)
    added = _sum(source, read.node)
    loop = source.loop(added.node)
    if loop is None:
        raise NotSure("no loop of the same function makes the sum")
    if is_seldom(source, added.node, loop):
        raise NotSure("the program already reads it only every few steps")
    uses = uses_of(source, added.total)
    _check_sum(source, uses, added, loop)
    check_waits_are_not_needed(source, loop)
    kind = _kind(source, read, added)
    changed = [each for each in uses.changed if each is not added.node]
    if kind == "int" and any(isinstance(each.operator, cst.DivideAssign) for each in changed):
        raise NotSure(f"{added.total.value} is a whole number, and a share of one later")
    if kind == "float" and "mps" in source.text:
        raise NotSure("the program may run on Apple's GPUs, which have no float64 to sum in")
    new = _on_gpu(read, kind)
    rewrites = [source.anew(read.node, "stays on the GPU", new)]
    for node in uses.read:
        if source.is_within(node, added.node):
            continue  # `total = total + ...`
        _check_read(source, node, kind, uses)
        rewrites.append(source.rewrite(node, "read here", lambda each: call_of(f"{kind}(X)", X=_plain(each))))
    rewrites += [source.rewrite(each, "read here", lambda node: _apart(node, kind)) for each in changed]
    outer = source.loop(loop)
    still = outer is not None and any(
        source.is_within(node, outer.body) and not is_seldom(source, node, outer) for node in uses.read
    )
    return rewrites, still


def _sum(source: SourceFile, read: cst.Call) -> _Sum:
    """Return the sum to which a number is added in its statement: `total += x` or `total = total + x`."""
    small = source.statement(read).body[0]
    if isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
        if isinstance(small.target, cst.Name):
            return _Sum(small.target, small.value, small)
        raise NotSure(f"{source.code(small.target)} is not a variable of the function: other code may read it")
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        name, value = small.targets[0].target, small.value
        is_sum = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add) and not value.lpar
        if isinstance(value, cst.BinaryOperation) and is_sum and source.code(value.left) == name.value:
            return _Sum(name, value.right, small)
    raise NotSure("the number does not go into a sum in a variable")


def _check_sum(source: SourceFile, uses: Uses, added: _Sum, loop: Loop) -> None:
    """Raise NotSure unless a sum begins at 0, and is used every so many steps only."""
    name = added.total.value
    _check_starts(source, uses, added, loop)
    for statement in uses.changed:
        if statement is added.node:
            continue
        if not is_seldom(source, statement, loop):
            raise NotSure(f"{name} is also changed in line {source.line(statement)}")
        source.statement(statement)
        if type(statement.operator) not in APART or not _is_host_number(source, statement.value):
            raise NotSure(f"{name} is changed in line {source.line(statement)} by what may be a tensor")
    for node in uses.read:
        parent = source.parent(node)
        if isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node):
            raise NotSure(f"{name} is not a number in line {source.line(node)}")
        check_is_not_shown(source, node)
        if not source.is_within(node, added.node) and not is_seldom(source, node, loop):
            raise NotSure(f"{name} is read in each step, in line {source.line(node)}: read it every N steps")


def _check_starts(source: SourceFile, uses: Uses, added: _Sum, loop: Loop) -> None:
    name = added.total.value
    starts = [(node, value) for node, value in uses.set if not source.is_within(node, added.node)]
    for node, value in starts:
        if source.code(value) not in {"0", "0.0", "0."}:
            raise NotSure(f"{name} is also set in line {source.line(node)}")
        if source.is_within(node, loop.body) and not is_seldom(source, node, loop):
            raise NotSure(f"{name} starts again in each step, in line {source.line(node)}")
    if not any(source.line(node) < source.line(loop) for node, _ in starts):
        raise NotSure(f"{name} does not begin at 0 before the loop, in the same function")


def _kind(source: SourceFile, read: Read, added: _Sum) -> Kind:
    """Return what the sum is of, as Python has it. Raises NotSure where the source does not show it."""
    times = _factor(source, read, added.value)
    tensor = check_is_tensor(source, read)
    is_count = not _is_real(source, tensor, read.node)
    if is_count and not _is_count(tensor):
        raise NotSure(f"the source does not show whether {source.code(tensor)} is a whole number")
    function = read.node.func.value if isinstance(read.node.func, cst.Name) else "item"
    if function == "int" and not is_count:
        raise NotSure("int() cuts the number off")
    return "int" if is_count and times != "divided" and function != "float" else "float"


def check_is_tensor(source: SourceFile, read: Read) -> cst.BaseExpression:
    """Return what is read. Raises NotSure where it may be no tensor of the GPU."""
    for node in walk(read.tensor):
        if isinstance(node, cst.Attribute) and node.attr.value in {"cpu", "numpy", "tolist", "item"}:
            raise NotSure(f"{source.code(read.tensor)} is on the host before it is read")
        if isinstance(node, cst.Subscript | cst.Await | cst.NamedExpr | cst.IfExp | cst.BooleanOperation):
            raise NotSure(f"{source.code(read.tensor)} may be no tensor")
    return read.tensor


def _factor(source: SourceFile, read: Read, value: cst.BaseExpression) -> str:
    """Return whether what is added is the number "alone", "times" a number of the host, or "divided" by one."""
    if value is read.node:
        return "alone"
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply | cst.Divide):
        times = isinstance(value.operator, cst.Multiply)
        other = value.right if value.left is read.node else value.left if times and value.right is read.node else None
        if other is not None and _is_host_number(source, other):
            return "times" if times else "divided"
        if other is not None:
            raise NotSure(f"{source.code(other)} may not be a number on the host")
    raise NotSure("what is added to the sum is more than the number, or that times another one")


def _is_host_number(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a number of the host for certain: a whole one, a length, a size."""
    if isinstance(node, cst.Call):
        function = node.func
        if isinstance(function, cst.Attribute):
            return function.attr.value in {"numel", "nelement"} or (
                function.attr.value == "size" and len(node.args) == 1
            )
        return isinstance(function, cst.Name) and function.value == "len"
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    return isinstance(node, cst.Integer) or (isinstance(node, cst.Name) and _counts(source, node))


def _counts(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a variable only ever has such numbers."""
    try:
        uses = uses_of(source, node)
    except NotSure:
        return False
    values = [value for _, value in uses.set] + [each.value for each in uses.changed]
    return bool(uses.set) and all(not isinstance(each, cst.Name) and _is_host_number(source, each) for each in values)


def _is_count(tensor: cst.BaseExpression) -> bool:
    """Return whether a tensor is a sum of comparisons: `(a == b).sum()`, `a.eq(b).sum()`."""
    if not (isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute)):
        return False
    if tensor.func.attr.value not in OF_MANY or tensor.args:
        return False
    of = tensor.func.value
    if isinstance(of, cst.Comparison):
        return True
    return isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute) and of.func.attr.value in COMPARING


def _is_real(source: SourceFile, tensor: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Return whether a tensor is of real numbers: a mean, a loss of torch, or what gradients are taken of."""
    if isinstance(tensor, cst.Call):
        named = source.qualified(tensor.func) or ""
        if named.startswith(LOSSES) and ("loss" in named or named.endswith("entropy")):
            return True
        return isinstance(tensor.func, cst.Attribute) and tensor.func.attr.value in REAL
    return isinstance(tensor, cst.Name) and any(
        isinstance(node, cst.Call) and _is_backward_of(node, tensor.value) for node in walk(source.scope(at))
    )


def _is_backward_of(call: cst.Call, name: str) -> bool:
    """Return whether a call is `name.backward()` or `scaler.scale(name).backward()`."""
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"):
        return False
    of = call.func.value
    if isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute) and of.func.attr.value == "scale" and of.args:
        of = of.args[0].value
    return isinstance(of, cst.Name) and of.value == name


def _on_gpu(read: Read, kind: Kind) -> cst.BaseExpression:
    """Return the number as a tensor, of the precision that Python's have."""
    text = "X.detach().double()" if kind == "float" else "X"  # a count has no gradients
    made = call_of(text, X=atom(read.tensor))
    return made.with_changes(lpar=read.node.lpar, rpar=read.node.rpar)


def _check_read(source: SourceFile, node: cst.Name, kind: Kind, uses: Uses) -> None:
    """Raise NotSure where a sum of real numbers may be seen before anything was added: 0 would become 0.0."""
    if kind == "int" or all(source.code(value) != "0" for _, value in uses.set if _is_literal(value)):
        return
    parent = source.parent(node)
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Divide) and parent.left is node:
        return
    if isinstance(parent, cst.FormattedStringExpression) and parent.format_spec:
        return
    raise NotSure(
        f"{node.value} begins at the whole number 0, and line {source.line(node)} would show 0.0 if nothing was added"
    )


def _is_literal(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Integer | cst.Float)


def _plain(node: cst.CSTNode) -> cst.BaseExpression:
    return cst.ensure_type(node, cst.Name)


def _apart(node: cst.CSTNode, kind: Kind) -> cst.CSTNode:
    """Return `total = float(total) / n` for `total /= n`."""
    changed = cst.ensure_type(node, cst.AugAssign)
    name = cst.ensure_type(changed.target, cst.Name)
    value = changed.value
    if isinstance(value, cst.BinaryOperation | cst.IfExp | cst.BooleanOperation | cst.Comparison) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    sum_of = cst.BinaryOperation(call_of(f"{kind}(X)", X=name), APART[type(changed.operator)](), value)
    return cst.Assign([cst.AssignTarget(name)], sum_of, semicolon=changed.semicolon)
