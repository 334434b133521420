"""Expressions by which the host reads a number of the GPU: `x.item()`, `float(x)`, with what changes nothing of it."""

from typing import NamedTuple

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.order import is_seldom
from pinprof.fix.core.rewrite import NotSafe, NotThisForm, Refusal, parts_of, walk
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.uses import check_is_builtin, uses_of
from pinprof.fix.core.values import is_tensor

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
        said = _said_around(source, found[0].node) or "each needs a line of its own"
        raise NotSafe(f"the line reads {len(found)} numbers, and {said.replace('the number', 'each')}")
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
    said = _said_around(source, read.node)
    return said or "the number goes neither into a sum nor into a list or a variable of its own"


def _said_around(source: SourceFile, node: cst.CSTNode) -> str | None:
    """Return what the statement around a number does with it; None for what does nothing."""
    for each in source.around(node):
        said = None if _is_text(source, each) else _said_of(source, each)
        if said:
            return said
        if isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return None
    return None


def _is_text(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether something only makes a text of numbers: `"%f" % (a, b)`, `"{}".format(a)`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return isinstance(node.func.value, cst.BaseString)
    around = source.parent(node)
    if not (isinstance(around, cst.BinaryOperation) and around.right is node):
        return False
    return isinstance(around.operator, cst.Modulo) and isinstance(around.left, cst.BaseString)


def _said_of(source: SourceFile, around: cst.CSTNode) -> str | None:
    """Return what something around a number does with it; None for what does nothing."""
    if isinstance(around, cst.Call):
        called = source.code(around.func)
        if called.endswith(".update"):
            return f"{called}() may need the number in each step: what it keeps is in another object"
        return f"the number goes to {called}() in each step: call it every N steps"
    if isinstance(around, cst.Return):
        return "the number is returned, and the caller may use it in each step: return the tensor, read it later"
    if isinstance(around, cst.Dict | cst.Tuple | cst.List):
        return "the number goes into an object with others, which may be used in each step: read it where that is used"
    if isinstance(around, cst.If | cst.While | cst.Assert):
        return "a decision in each step depends on the value"
    return None
