"""Methods that copy a tensor to the GPU, `x.to(device)`, or make another shape or type of one."""

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.calls import method
from pinprof.fix.core.rewrite import NotSafe
from pinprof.fix.core.source import SourceFile

VIEWS = {"reshape", "view", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous"}
"""Methods that show the same memory in another shape, or copy it on the host."""
CASTS = {"bfloat16", "bool", "double", "float", "half", "int", "long"}
COPYING = {"to", "cuda", "type"}
DEVICES = ("device", "dev")
"""How names end that people give to a device."""
DEVICE = m.Arg(keyword=None, star="") | m.Arg(keyword=m.Name("device"), star="")
MOVE, CUDA = (m.Call(m.Attribute(attr=m.Name(name)), given) for name, given in (("to", [DEVICE]), ("cuda", [])))


def is_copy(call: cst.Call) -> bool:
    """Return whether a call may copy a tensor to the GPU: `.type()` without an argument only asks."""
    return method(call) in COPYING and (method(call) != "type" or bool(call.args))


def copied_by(call: cst.Call) -> cst.BaseExpression:
    """Return what a call copies to the GPU, as it was before its shape changed: `x` of `x.view(-1).cuda()`."""
    node = cst.ensure_type(call.func, cst.Attribute).value
    while isinstance(node, cst.Call) and method(node) in VIEWS:
        node = cst.ensure_type(node.func, cst.Attribute).value
    return node


def moved_to(source: SourceFile, call: cst.Call) -> tuple[cst.Call, cst.BaseExpression]:
    """Return the call that moves what a call makes, `….to(device)`, and the device. Raises NotSafe."""
    attribute = source.parent(call)
    move = source.parent(attribute) if isinstance(attribute, cst.Attribute) and attribute.value is call else None
    if isinstance(move, cst.Call) and m.matches(move, CUDA):
        return move, cst.SimpleString('"cuda"')
    if isinstance(move, cst.Call) and m.matches(move, MOVE) and _is_device(source, move.args[0].value):
        return move, move.args[0].value
    raise NotSafe("the source does not show that it goes to a device, and to which")


def _is_device(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a device by its name: `"cuda"`, `self.device`."""
    name = source.code(node).rpartition(".")[2].lower().rpartition("_")[2]
    return isinstance(node, cst.SimpleString) or (isinstance(node, cst.Name | cst.Attribute) and name in DEVICES)
