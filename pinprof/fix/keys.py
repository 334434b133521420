"""Dictionaries of a function whose keys are constant: `running["loss"]` is then a variable as any other."""

from typing import NamedTuple

import libcst as cst

from pinprof.fix.names import TotalUses, check_is_builtin, comes_after, sort_use, uses_of
from pinprof.fix.rewrite import NotSafe
from pinprof.fix.source import Loop, Scope, SourceFile

AT_ONCE = {"sum", "min", "max", "any", "all", "list", "tuple", "dict", "set", "sorted", "join"}
"""Functions that go through a generator before they return."""


class KeyUses(NamedTuple):
    """The uses of one key of a dictionary."""

    uses: TotalUses
    behind: Loop | None
    """The loop behind which something gets the whole dictionary; then the uses are those before that."""


def uses_of_key(source: SourceFile, at: cst.Subscript, added: cst.CSTNode) -> KeyUses:
    """Return all uses of a key of a dictionary in its function. Raises Refusal where there may be others."""
    name, key = at.value, _key(at)
    if not isinstance(name, cst.Name):
        raise NotSafe(f"{source.code(at)} is not a variable of the function: other code may read it")
    if key is None:
        raise NotSafe(f"{source.code(at)} is not an element of a dictionary by a constant key")
    whole = uses_of(source, name, keyed=True)
    if whole.changed:
        raise NotSafe(f"{name.value} is also changed in line {source.line(whole.changed[0])}")
    begun = [entry for node, value in whole.set for entry in _entries(source, node, value) if entry[0] == key]
    found = TotalUses([(each, number) for _, each, number in begun])
    handed: list[cst.Name] = []
    for node in whole.read:
        part = _part(source, node)
        if part is None:
            handed.append(node)
        elif _key(part) == key:
            sort_use(source, part, source.code(part), found)
    if not handed:
        return KeyUses(found, None)
    if len(begun) < len(whole.set):
        raise NotSafe(f"{name.value} is handed on, and does not begin with {source.code(at)} everywhere")
    loop = _filling(source, name.value, added, [source.statement(each) for _, each, _ in begun])
    for node in handed:
        _check_is_behind(source, node, loop)
    return KeyUses(_before(source, found, loop), loop)


def _part(source: SourceFile, node: cst.Name) -> cst.Subscript | None:
    """Return the element of a dictionary that a constant key takes, in the frame of the function; None for all else."""
    part = source.parent(node)
    is_part = isinstance(part, cst.Subscript) and part.value is node and _key(part) is not None
    return part if isinstance(part, cst.Subscript) and is_part and not _in_comprehension(source, part) else None


def _key(part: cst.Subscript) -> str | None:
    """Return the text by which a subscript takes an element; None for any other one."""
    index = part.slice[0].slice if len(part.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) and index.star is None else None
    text = value.evaluated_value if isinstance(value, cst.SimpleString) else None
    return text if isinstance(text, str) else None


def _entries(
    source: SourceFile, node: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[str, cst.BaseExpression, cst.BaseExpression]]:
    """Return the keys of a dictionary where it begins, with a node and the value of each. Raises Refusal."""
    assign = next(each for each in source.around(node) if isinstance(each, cst.Assign | cst.AnnAssign))
    if isinstance(assign, cst.Assign) and len(assign.targets) != 1:
        raise NotSafe(f"{source.code(node)} has another name, in line {source.line(node)}")
    pairs: list[tuple[str, cst.BaseExpression, cst.BaseExpression]] = []
    if isinstance(value, cst.Call) and source.code(value.func) == "dict":
        check_is_builtin(source, "dict")
        pairs = [(each.keyword.value, each.keyword, each.value) for each in value.args if each.keyword]
        if len(pairs) == len(value.args):
            return pairs
    if isinstance(value, cst.Dict):
        for each in value.elements:
            if isinstance(each, cst.DictElement) and isinstance(each.key, cst.SimpleString):
                pairs.append((str(each.key.evaluated_value), each.key, each.value))
        if len({key for key, _, _ in pairs}) == len(value.elements):
            return pairs
    raise NotSafe(f"{source.code(node)} does not begin as a dictionary of constant keys, in line {source.line(node)}")


def _filling(source: SourceFile, name: str, added: cst.CSTNode, starts: list[cst.CSTNode]) -> Loop:
    """Return the loop behind which a dictionary is whole: the outermost one that begins after the dictionary does."""
    found: Loop | None = None
    for each in source.around(added):
        if isinstance(each, Scope):
            break
        begun = [start for start in starts if source.parent(start) is source.parent(each)]
        if isinstance(each, cst.For | cst.While) and any(comes_after(source, each, start) for start in begun):
            found = each
    if found is None:
        raise NotSafe(f"{name} is handed on, and does not begin anew before its loop")
    return found


def _check_is_behind(source: SourceFile, node: cst.Name, loop: Loop) -> None:
    """Raise Refusal unless something gets the whole dictionary behind its loop, and uses it there."""
    where = f"in line {source.line(node)}"
    if not comes_after(source, node, loop):
        raise NotSafe(f"something else than a constant key of {node.value} is used {where}, which may see the tensor")
    for each in source.around(node):
        call = source.parent(source.parent(each) or each)
        if isinstance(each, cst.GeneratorExp) and not (isinstance(call, cst.Call) and _goes_through(call)):
            raise NotSafe(f"a generator may use {node.value} later, {where}")
        if isinstance(each, cst.BaseStatement):
            return


def _goes_through(call: cst.Call) -> bool:
    function = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(function, cst.Name) and function.value in AT_ONCE


def _in_comprehension(source: SourceFile, node: cst.CSTNode) -> bool:
    for each in source.around(node):
        if isinstance(each, cst.BaseComp):
            return True
        if isinstance(each, cst.BaseStatement):
            return False
    return False


def _before(source: SourceFile, uses: TotalUses, loop: Loop) -> TotalUses:
    """Return the uses that do not come after a loop. Raises Refusal where others may see what is set behind it."""
    before = TotalUses(
        [(node, value) for node, value in uses.set if not comes_after(source, node, loop)],
        [each for each in uses.changed if not comes_after(source, each, loop)],
        [each for each in uses.read if not comes_after(source, each, loop)],
    )
    elsewhere = [each for each in (*before.read, *before.changed) if not source.is_within(each, loop)]
    is_set_behind = len(before.set) < len(uses.set) or len(before.changed) < len(uses.changed)
    if elsewhere and is_set_behind:
        raise NotSafe(f"line {source.line(elsewhere[0])} may see another number, which is set behind the loop")
    return before
