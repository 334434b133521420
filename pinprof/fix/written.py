"""Tensors that the program writes to in place, by the names that it has for them."""

from collections.abc import Collection, Iterator

import libcst as cst

from pinprof.fix.batches import is_copy_of
from pinprof.fix.bindings import bound_to
from pinprof.fix.rewrite import NotSafe, walk
from pinprof.fix.source import SourceFile
from pinprof.trace.lines import Place

NO_WRITES = {"requires_grad_", "share_memory_"}
"""Methods that end with an underscore, and leave the values as they are."""


def written(source: SourceFile, within: cst.CSTNode, names: Collection[str]) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield where code writes to what one of some names is, with the name: `x[0] = 1`, `x += 1`, `x.add_(1)`."""
    for node in walk(within):
        target = _written_by(node)
        name = _root(source, target) if target is not None else ""
        if name in names:
            yield node, name


def check_parts_are_not_written(source: SourceFile, begun: Place) -> None:
    """Raise Refusal where a loop that begins at a place writes to a part of a batch: others may share its memory."""
    loops = [each for each in source.nodes if isinstance(each, cst.For) and source.line(each) == begun.line]
    for loop in loops:
        names, moved = _parts_of(source, loop)
        for node, name in written(source, loop.body, names):
            if source.line(node) <= moved.get(name, source.line(node)):
                raise NotSafe(
                    f"line {source.line(node)} writes to a part of a batch, and the program's own code makes the "
                    "batches: the parts may share memory until they are pinned"
                )


def _parts_of(source: SourceFile, loop: cst.For) -> tuple[set[str], dict[str, int]]:
    """Return the names of a batch and its parts in a loop, and the lines from which on they are copies."""
    names, moved = set(source.names_in(loop.target)), dict[str, int]()
    for node in walk(loop.body):
        bound = bound_to(source, node) if isinstance(node, cst.Name) else None
        if not (isinstance(node, cst.Name) and bound):
            continue
        if is_copy_of(source, bound[0], node.value):
            moved.setdefault(node.value, source.line(node))
        elif _root(source, bound[0]) in names:
            names.add(node.value)
    return names, moved


def _written_by(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what a node writes to in place, if it does."""
    if isinstance(node, cst.AssignTarget):
        return node.target if isinstance(node.target, cst.Subscript) else None
    if isinstance(node, cst.AugAssign):
        return node.target
    function = node.func if isinstance(node, cst.Call) else None
    if isinstance(function, cst.Attribute):
        method = function.attr.value
        is_writing = method.endswith("_") and not method.endswith("__") and method not in NO_WRITES
        return function.value if is_writing else None
    return None


def _root(source: SourceFile, node: cst.BaseExpression) -> str:
    """Return the name of what a part is of: `x` of `x[0]`, `self.x` of `self.x[0]`."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return source.code(node)
