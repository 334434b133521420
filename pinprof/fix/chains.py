"""What is made of a tensor where it stands: `torch.ones(3).long().to(device)`."""

import libcst as cst

from pinprof.fix.batches import VIEWS
from pinprof.fix.calls import method
from pinprof.fix.source import SourceFile

MOVES = {"to", "cuda"}
CASTS = {"bfloat16", "bool", "double", "float", "half", "int", "long"}
KEPT = VIEWS | MOVES | CASTS
"""Methods that make another constant of one."""
DEVICES = ("device", "dev")
"""How names end that people give to a device."""


def chain_of(source: SourceFile, call: cst.Call) -> list[cst.BaseExpression]:
    """Return what is made of a tensor where it stands: `.view(1, 3)`, `[None]`, `.to(device)`; the innermost first."""
    chain: list[cst.BaseExpression] = []
    inner: cst.BaseExpression = call
    while True:
        parent = source.parent(inner)
        around = source.parent(parent) if isinstance(parent, cst.Attribute) and parent.value is inner else None
        if isinstance(around, cst.Call) and around.func is parent and method(around) in KEPT:
            inner = around
        elif isinstance(parent, cst.Subscript) and parent.value is inner and _only_shapes(parent):
            inner = parent
        else:
            return chain
        chain.append(inner)


def is_move(node: cst.BaseExpression) -> bool:
    """Return whether an expression is `x.to(...)` or `x.cuda(...)`."""
    return isinstance(node, cst.Call) and method(node) in MOVES


def moved_to(source: SourceFile, move: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the device of `x.cuda()`, `x.to("cuda")`, `x.to(self.device)`; None where it may be something else."""
    if not isinstance(move, cst.Call):
        return None
    if method(move) == "cuda":
        return cst.SimpleString('"cuda"') if not move.args else None  # `.cuda(None)` is no place of torch.full
    if len(move.args) != 1 or move.args[0].star or _keyword(move.args[0]) not in {None, "device"}:
        return None
    given = move.args[0].value
    names = source.names_in(given)
    if isinstance(given, cst.SimpleString):
        return given
    is_name = isinstance(given, cst.Name) or (isinstance(given, cst.Attribute) and _is_dotted(given))
    return given if is_name and names[-1].lower().rpartition("_")[2] in DEVICES else None


def _keyword(given: cst.Arg) -> str | None:
    return given.keyword.value if given.keyword else None


def _is_dotted(node: cst.BaseExpression) -> bool:
    """Return whether an expression is of names and dots alone: `self.device`."""
    return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and _is_dotted(node.value))


def _only_shapes(node: cst.Subscript) -> bool:
    """Return whether a subscript adds axes and takes all: `[None, :, None]`."""
    return all(_takes_all(each.slice) for each in node.slice)


def _takes_all(index: cst.BaseSlice) -> bool:
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == "None"
