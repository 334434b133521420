"""Batches of a DataLoader in the source of a loop: their parts, and whether the host may write to their memory."""

from collections.abc import Callable

import libcst as cst

from pinprof.fix.bindings import binds, bound_to, uses_in
from pinprof.fix.rewrite import NotSure
from pinprof.fix.source import SourceFile

COPYING = {"to", "cuda", "type"}
"""Methods that copy a tensor to the GPU."""
VIEWS = {"reshape", "view", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous"}
"""Methods that show the same memory in another shape, or copy it on the host."""
READS = {"shape", "dtype", "device", "ndim", "requires_grad"}
"""Attributes of a tensor that read nothing of its memory."""
ASKS = {"size", "dim", "numel", "nelement", "is_floating_point", "is_pinned", "stride"}
"""And methods."""
LOOKS = {"len", "isinstance", "type"}
"""Functions that only look."""
THROUGH = {"enumerate", "tqdm", "trange", "auto", "track"}
"""What passes on the batches of a DataLoader, as the last part of its name."""


def method(call: cst.Call) -> str | None:
    """Return the name of the method that a call is of."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def path_of(node: cst.BaseExpression) -> tuple[str, list[str | int]]:
    """Return the name in `name`, `name["key"]` or `name[0]`, and the keys."""
    if isinstance(node, cst.Name):
        return node.value, []
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString | cst.Integer):
            name, keys = path_of(node.value)
            key = index.value.evaluated_value
            if isinstance(key, str | int):
                return name, [*keys, key]
    raise NotSure("what it copies is no name of a batch")


def target_of(loop: cst.For) -> cst.BaseExpression:
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


def keys_in(target: cst.BaseExpression, name: str) -> list[str | int]:
    """Return where a name stands in the target of a loop."""
    if isinstance(target, cst.Name) and target.value == name:
        return []
    if isinstance(target, cst.Tuple | cst.List):
        for place, element in enumerate(target.elements):
            if isinstance(element, cst.StarredElement):
                raise NotSure("the loop takes its batch apart with a star")
            if binds(element.value, name):
                return [place, *keys_in(element.value, name)]
    raise NotSure(f"{name} is not a part of the batch")


def part(batch: object, keys: list[str | int]) -> object:
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


def check_uses(
    source: SourceFile, loop: cst.For, name: str, apart: cst.CSTNode | None, copies: Callable[[int], bool]
) -> None:
    """Raise NotSure where the loop may write to the host's memory of a batch, or passes it on to what may.

    `apart` is where it is taken apart, if it is; `copies` says whether the trace has copies to the GPU at a line, and
    none back.
    """
    moved: int | None = None
    for node in uses_in(source, loop.body, name):
        bound, line = bound_to(source, node), source.line(node)
        if bound is None and moved is not None and line > moved:
            continue  # what the name means from there on is on the GPU
        if bound is not None and moved is None:
            if source.parent(source.statement(node)) is not loop.body:
                raise NotSure(f"{name} is bound anew in line {line}, on a condition")
            if is_copy_of(bound[0], name) and not bound[1] and copies(source.line(bound[0])):
                moved = source.end(source.statement(node))
            elif not (bound[1] and _is_batch(loop, bound[0])):
                raise NotSure(f"{name} is bound anew in line {line}")
        elif bound is None and node is not apart and not _only_looks(source, node):
            raise NotSure(f"{name} is used on the host in line {line}, where it may be written to while it is copied")
    if moved is None:
        _check_later_uses(source, loop, name)


def _check_later_uses(source: SourceFile, loop: cst.For, name: str) -> None:
    """Raise NotSure where the last batch may be used once its loop has ended."""
    for node in uses_in(source, source.scope(loop), name):
        around = list(source.around(node))
        if loop in around or any(isinstance(each, cst.For) and binds(each.target, name) for each in around):
            continue
        if source.line(node) > source.end(loop):
            raise NotSure(f"{name} is used after its loop, in line {source.line(node)}")


def _is_batch(loop: cst.For, value: cst.BaseExpression) -> bool:
    """Return whether an expression is a name that the loop binds."""
    return isinstance(value, cst.Name) and binds(loop.target, value.value)


def is_copy_of(value: cst.BaseExpression, name: str) -> bool:
    """Return whether an expression is a copy of a name: `x.to(...)`, which may go on: `x.to(...).float()`."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if method(value) in {"to", "cuda"} and isinstance(value.func.value, cst.Name):
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
