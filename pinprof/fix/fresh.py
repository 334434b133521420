"""Copies of batches: those that DataLoaders make, and those that the program pins right before it copies them."""

import libcst as cst

from pinprof.fix.names import uses_of
from pinprof.fix.rewrite import Refusal
from pinprof.fix.source import SourceFile
from pinprof.fix.told import Told
from pinprof.fix.transfers import Copied, copy_calls, loader_of
from pinprof.trace.lines import Place

MAKERS = {
    f"torch.{name}"
    for name in ("arange", "cat", "concat", "empty", "full", "ones", "rand", "randint", "randn", "randperm", "stack")
} | {"torch.tensor", "torch.zeros"}
"""Functions that return memory of its own, which is not pinned unless that is asked for."""
OTHER_MEMORY = {"pin_memory", "out"}


def copies_of(source: SourceFile, place: Place, told: Told) -> list[Copied]:
    """Return the calls on a line that copy parts of a batch to the GPU, or what the line itself pins.

    Raises Refusal unless all of its calls do.
    """
    calls = copy_calls(source, place, told)
    copies = told.copies_at(place)
    if copies is not None and copies.pinned and all(_is_pinned_there(source, call) for call in calls):
        return [Copied(source, call, None) for call in calls]
    return [Copied(source, call, loader_of(source, call, place, told)) for call in calls]


def _is_pinned_there(source: SourceFile, call: cst.Call) -> bool:
    """Return whether a call copies memory that its own line pins: `x.pin_memory().to(device)`.

    Memory that is pinned already would not be pinned anew, and may be someone else's: so `x` has to be made by
    functions of torch that pin nothing, wherever the function binds it.
    """
    pinned = cst.ensure_type(call.func, cst.Attribute).value
    if not (isinstance(pinned, cst.Call) and isinstance(pinned.func, cst.Attribute)):
        return False
    if pinned.func.attr.value != "pin_memory" or pinned.args:
        return False
    return _is_unpinned(source, pinned.func.value, call)


def _is_unpinned(source: SourceFile, node: cst.BaseExpression, call: cst.Call) -> bool:
    if isinstance(node, cst.Call):
        words = {each.keyword.value for each in node.args if each.keyword}
        starred = any(each.star == "**" for each in node.args)
        return source.qualified(node.func) in MAKERS and not words & OTHER_MEMORY and not starred
    if not isinstance(node, cst.Name):
        return False
    try:
        uses = uses_of(source, node)
    except Refusal:
        return False
    made = [value for _, value in uses.set if not _is_moved(source, value, call)]
    return bool(made) and not uses.changed and all(_is_maker(source, value) for value in made)


def _is_maker(source: SourceFile, value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and _is_unpinned(source, value, value)


def _is_moved(source: SourceFile, value: cst.BaseExpression, call: cst.Call) -> bool:
    """Return whether a value is the copy itself, or another copy to a device: that is not pinned either."""
    if value is call:
        return True
    return (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in {"to", "cuda"}
        and source.line(value) >= source.line(call)
    )
