"""What binds a name: assignments, with the part of their value that it gets, and the targets of loops."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.rewrite import walk
from pinprof.fix.source import SourceFile


def bound_to(source: SourceFile, node: cst.BaseExpression) -> tuple[cst.BaseExpression, list[str | int]] | None:
    """Return the expression that an assignment binds to a name, and the part of it; None for what is no target."""
    inner: cst.CSTNode = node
    places: list[str | int] = []
    parent = source.parent(inner)
    while isinstance(parent, cst.Element):
        group = source.parent(parent)
        if not isinstance(group, cst.Tuple | cst.List):
            return None
        places.insert(0, [each is parent for each in group.elements].index(True))
        inner, parent = group, source.parent(group)
    assign = source.parent(parent) if isinstance(parent, cst.AssignTarget) else None
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    value = assign.value
    while places and isinstance(value, cst.Tuple | cst.List) and isinstance(places[0], int):
        if places[0] >= len(value.elements):
            return None
        value, places = value.elements[places[0]].value, places[1:]
    return value, places


def binds(target: cst.BaseExpression, name: str) -> bool:
    """Return whether the target of a loop binds a name."""
    return any(isinstance(node, cst.Name) and node.value == name for node in walk(target))


def uses_in(source: SourceFile, within: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """Yield the uses of a name as a variable."""
    for node in walk(within):
        if not (isinstance(node, cst.Name) and node.value == name):
            continue
        parent = source.parent(node)
        is_word = (isinstance(parent, cst.Arg) and parent.keyword is node) or (
            isinstance(parent, cst.Attribute) and parent.attr is node
        )
        if not is_word:
            yield node
