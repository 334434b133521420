"""`non_blocking=True` on copies of batches from pinned memory to the GPU."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import libcst as cst

from pinprof.fix.calls import argument, check_plain, with_argument
from pinprof.fix.rewrite import NotSure, Rewrite, walk
from pinprof.fix.source import SourceFile
from pinprof.fix.told import Told
from pinprof.trace.lines import Place
from pinprof.trace.made import DENSE, MadeLoader

READS = {"shape", "dtype", "device", "ndim", "requires_grad"}
"""Attributes of a tensor that read nothing of its memory."""
ASKS = {"size", "dim", "numel", "nelement", "is_floating_point", "is_pinned", "stride"}
"""And methods."""
LOOKS = {"len", "isinstance", "type"}
"""Functions that only look."""
THROUGH = {"enumerate", "tqdm", "trange", "auto", "track"}
"""What passes on the batches of a DataLoader, as the last part of its name."""


class Copied(NamedTuple):
    """A copy of a batch, or of a part of it."""

    source: SourceFile
    call: cst.Call
    loader: MadeLoader


def copies_of(source: SourceFile, place: Place, told: Told) -> list[Copied]:
    """Return the calls on a line that copy parts of a batch to the GPU. Raises NotSure unless all of its calls do."""
    if not told.are_to_gpu(place):
        raise NotSure("the trace has no copy to the GPU at this line alone")
    calls = [call for call in source.calls(place.line or 0) if _method(call) in {"to", "cuda"}]
    if not calls:
        raise NotSure("no call of .to() or .cuda() begins on the line")
    return [Copied(source, call, _loader_of(source, call, place, told)) for call in calls]


def non_blocking(copied: Copied) -> Rewrite | None:
    """Return the rewrite of a copy; None where it says so already."""
    source, call = copied.source, copied.call
    check_plain(call, 1, "the copy")
    given = argument(call, "non_blocking")
    if given is not None and source.code(given.value) == "True":
        return None
    if given is not None and source.code(given.value) != "False":
        raise NotSure(f"the source says non_blocking={source.code(given.value)}; change it where that is set")
    if argument(call, "copy") or argument(call, "memory_format"):
        raise NotSure("the copy has arguments that change what it makes")
    return source.rewrite(call, "non_blocking=True", with_argument("non_blocking", "True"))


def _method(call: cst.Call) -> str | None:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def _loader_of(source: SourceFile, call: cst.Call, place: Place, told: Told) -> MadeLoader:
    """Return the DataLoader whose batch a call copies. Raises NotSure where the batch may come from elsewhere."""
    copied = cst.ensure_type(call.func, cst.Attribute).value
    name, keys = _path(copied)
    loop = source.loop(call)
    if not isinstance(loop, cst.For):
        raise NotSure("no loop around the line draws the batch; it may be written to while it is copied")
    names: list[tuple[str, cst.CSTNode | None]] = [(name, None)]
    if not _binds(loop.target, name):
        apart, whole, within = _unpacked(source, loop, name)
        names, name, keys = [(name, None), (whole, apart)], whole, [*within, *keys]
    target = _target(loop)
    loader = told.loader_of(place, source.line(loop))
    if loader is None:
        raise NotSure("the trace does not show that the loop draws from one DataLoader")
    kind = _part(loader.batch, [*_keys_in(target, name), *keys])
    if kind != DENSE:
        raise NotSure(f"{source.code(copied)} is not known to be a tensor of the batch")
    for each, taken in names:
        _check_uses(source, loop, each, taken, lambda line: told.are_to_gpu(place._replace(line=line)))
    return loader


def _unpacked(source: SourceFile, loop: cst.For, name: str) -> tuple[cst.CSTNode, str, list[str | int]]:
    """Return what a name is a part of, where the loop's body takes the batch apart: `x, y = batch`.

    First comes the node of that batch, then its name, then where in it the part is.
    """
    for node in _uses(source, loop.body, name):
        bound = bound_to(source, node)
        if bound is None:
            continue
        value, keys = bound
        is_whole = isinstance(value, cst.Name) and _binds(loop.target, value.value)
        if isinstance(value, cst.Name) and is_whole and source.parent(source.statement(node)) is loop.body:
            return value, value.value, keys
        break
    raise NotSure(f"{name} is not the batch of the loop around the line; it may be written to while it is copied")


def bound_to(source: SourceFile, node: cst.Name) -> tuple[cst.BaseExpression, list[str | int]] | None:
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


def _path(node: cst.BaseExpression) -> tuple[str, list[str | int]]:
    """Return the name in `name`, `name["key"]` or `name[0]`, and the keys."""
    if isinstance(node, cst.Name):
        return node.value, []
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString | cst.Integer):
            name, keys = _path(node.value)
            key = index.value.evaluated_value
            if isinstance(key, str | int):
                return name, [*keys, key]
    raise NotSure("what it copies is no name of a batch")


def _target(loop: cst.For) -> cst.BaseExpression:
    """Return what a loop binds to each batch: with `enumerate` its second part."""
    drawn = loop.iter
    target: cst.BaseExpression = loop.target
    while isinstance(drawn, cst.Call):
        name = drawn.func.attr.value if isinstance(drawn.func, cst.Attribute) else getattr(drawn.func, "value", "")
        if name not in THROUGH or not drawn.args or drawn.args[0].keyword or drawn.args[0].star:
            raise NotSure("the loop goes through more than a DataLoader")
        if name == "enumerate":
            if not isinstance(target, cst.Tuple) or len(target.elements) != 2:  # noqa: PLR2004  number and batch
                raise NotSure("the loop does not name its batch")
            target = target.elements[1].value
        drawn = drawn.args[0].value
    if not isinstance(drawn, cst.Name | cst.Attribute):
        raise NotSure("the loop goes through more than a DataLoader")
    return target


def _binds(target: cst.BaseExpression, name: str) -> bool:
    return any(isinstance(node, cst.Name) and node.value == name for node in walk(target))


def _keys_in(target: cst.BaseExpression, name: str) -> list[str | int]:
    """Return where a name stands in the target of a loop."""
    if isinstance(target, cst.Name) and target.value == name:
        return []
    if isinstance(target, cst.Tuple | cst.List):
        for place, element in enumerate(target.elements):
            if isinstance(element, cst.StarredElement):
                raise NotSure("the loop takes its batch apart with a star")
            if _binds(element.value, name):
                return [place, *_keys_in(element.value, name)]
    raise NotSure(f"{name} is not a part of the batch")


def _part(batch: object, keys: list[str | int]) -> object:
    """Return what a part of a batch is, as it was recorded; None where that is not known."""
    for key in keys:
        if isinstance(batch, dict):
            batch = batch.get("tuple", batch.get("dict"))
        if isinstance(batch, dict) and isinstance(key, str):
            batch = batch.get(key)
        elif isinstance(batch, list) and isinstance(key, int) and 0 <= key < len(batch):
            batch = batch[key]
        else:
            return None
    return batch


def _check_uses(
    source: SourceFile, loop: cst.For, name: str, apart: cst.CSTNode | None, copies: Callable[[int], bool]
) -> None:
    """Raise NotSure where the loop may write to the host's memory of a batch, or passes it on to what may.

    `apart` is where it is taken apart, if it is; `copies` says whether the trace has copies to the GPU at a line, and
    none back.
    """
    moved: int | None = None
    for node in _uses(source, loop.body, name):
        bound, line = bound_to(source, node), source.line(node)
        if bound is None and moved is not None and line > moved:
            continue  # what the name means from there on is on the GPU
        if bound is not None and moved is None:
            if source.parent(source.statement(node)) is not loop.body:
                raise NotSure(f"{name} is bound anew in line {line}, on a condition")
            if _is_copy_of(bound[0], name) and not bound[1] and copies(source.line(bound[0])):
                moved = source.end(source.statement(node))
            elif not (bound[1] and _is_batch(loop, bound[0])):
                raise NotSure(f"{name} is bound anew in line {line}")
        elif bound is None and node is not apart and not _only_looks(source, node):
            raise NotSure(f"{name} is used on the host in line {line}, where it may be written to while it is copied")
    if moved is None:
        _check_later_uses(source, loop, name)


def _check_later_uses(source: SourceFile, loop: cst.For, name: str) -> None:
    """Raise NotSure where the last batch may be used once its loop has ended."""
    for node in _uses(source, source.scope(loop), name):
        around = list(source.around(node))
        if loop in around or any(isinstance(each, cst.For) and _binds(each.target, name) for each in around):
            continue
        if source.line(node) > source.end(loop):
            raise NotSure(f"{name} is used after its loop, in line {source.line(node)}")


def _is_batch(loop: cst.For, value: cst.BaseExpression) -> bool:
    """Return whether an expression is a name that the loop binds."""
    return isinstance(value, cst.Name) and _binds(loop.target, value.value)


def _uses(source: SourceFile, within: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    for node in walk(within):
        if not (isinstance(node, cst.Name) and node.value == name):
            continue
        parent = source.parent(node)
        is_word = (isinstance(parent, cst.Arg) and parent.keyword is node) or (
            isinstance(parent, cst.Attribute) and parent.attr is node
        )
        if not is_word:
            yield node


def _is_copy_of(value: cst.BaseExpression, name: str) -> bool:
    """Return whether an expression is a copy of a name: `x.to(...)`, which may go on: `x.to(...).float()`."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if _method(value) in {"to", "cuda"} and isinstance(value.func.value, cst.Name):
            return value.func.value.value == name
        value = value.func.value
    return False


def _only_looks(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a use of a batch copies it, or asks for what is not in its memory."""
    inner: cst.CSTNode = node
    parent = source.parent(inner)
    while isinstance(parent, cst.Subscript) and parent.value is inner:
        inner, parent = parent, source.parent(parent)
    if isinstance(parent, cst.Attribute) and parent.value is inner:
        called = source.parent(parent)
        if isinstance(called, cst.Call) and called.func is parent:
            return parent.attr.value in ASKS | {"to", "cuda"}
        return parent.attr.value in READS
    if isinstance(parent, cst.Arg):
        call = source.parent(parent)
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in LOOKS
    return False
