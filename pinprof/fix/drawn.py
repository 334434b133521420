"""What draws the batches of a loop, and which part of a batch a name is."""

from typing import NamedTuple

import libcst as cst

from pinprof.fix.bindings import binds, bound_to, uses_in
from pinprof.fix.calls import last_name
from pinprof.fix.names import check_is_builtin
from pinprof.fix.rewrite import NotSafe, NotThisForm, Refusal
from pinprof.fix.source import SourceFile

THROUGH = {"enumerate", "tqdm", "trange", "auto", "track"}
"""What passes on the batches of a DataLoader, as the last part of its name."""
PROGRESS = {"tqdm", "rich", "fastprogress", "accelerate"}
"""Libraries of such functions."""
NOT_DRAWN = (
    "no loop around the line draws what it copies from a DataLoader. By hand: pin it, and copy it with "
    "non_blocking=True, if nothing writes to it meanwhile"
)


class Batch(NamedTuple):
    """Where a name comes from: which part of which batch it is."""

    loop: cst.For
    keys: list[str | int]
    """Where in the batch the name's part is."""
    name: str
    """What the loop binds: the name itself, or that of the batch which the loop's body takes apart."""
    apart: cst.CSTNode | None = None
    """The node of that batch where it is taken apart, `batch` in `x, y = batch`."""


def batch_of(source: SourceFile, call: cst.Call, name: str) -> Batch:
    """Return the batch that a name is, or is a part of, where a call in a loop copies it. Raises Refusal."""
    loop = source.loop(call)
    if not isinstance(loop, cst.For):
        raise NotThisForm(NOT_DRAWN)
    if binds(loop.target, name):
        return Batch(loop, _keys_in(_target_of(source, loop), name), name)
    for node in uses_in(source, loop.body, name):
        bound = bound_to(source, node)
        if bound is None:
            continue
        value, keys = bound
        if isinstance(value, cst.Name) and binds(loop.target, value.value):
            target = _target_of(source, loop)
            if source.parent(source.statement(node)) is loop.body and source.line(node) < source.line(call):
                return Batch(loop, [*_keys_in(target, value.value), *keys], value.value, value)
        break
    raise NotSafe(f"{name} is not the batch of the loop around the line; it may be written to while it is copied")


def _target_of(source: SourceFile, loop: cst.For) -> cst.BaseExpression:
    """Return what a loop binds to each batch: with `enumerate` its second part."""
    drawn = loop.iter
    target: cst.BaseExpression = loop.target
    while isinstance(drawn, cst.Call):
        name = last_name(drawn)
        if (
            name not in THROUGH
            or _is_own(source, drawn.func)
            or not drawn.args
            or drawn.args[0].keyword
            or drawn.args[0].star
        ):
            raise NotSafe("the loop goes through more than a DataLoader")
        if name == "enumerate":
            if not isinstance(target, cst.Tuple) or len(target.elements) != 2:  # noqa: PLR2004  number and batch
                raise NotSafe("the loop does not name its batch")
            target = target.elements[1].value
        drawn = drawn.args[0].value
    if not isinstance(drawn, cst.Name | cst.Attribute):
        raise NotSafe("the loop goes through more than a DataLoader")
    return target


def _is_own(source: SourceFile, function: cst.BaseExpression) -> bool:
    """Return whether a function may be the program's own, not that of Python or of a library for progress."""
    named = source.qualified(function)
    if named is not None:
        return named.partition(".")[0] not in PROGRESS
    if not isinstance(function, cst.Name):
        return True
    try:
        check_is_builtin(source, function.value)
    except Refusal:
        return not _is_of_libraries(source, function.value)
    return False


def _is_of_libraries(source: SourceFile, name: str) -> bool:
    """Return whether a name is only ever imported, and from libraries for progress: in a `try`, or in both branches."""
    found = [each for each in source.nodes if isinstance(each, cst.ImportFrom) and f" {name}" in source.code(each)]
    return bool(found) and all(_module(source, each).partition(".")[0] in PROGRESS for each in found)


def _module(source: SourceFile, imported: cst.ImportFrom) -> str:
    return source.code(imported.module) if imported.module is not None and not imported.relative else ""


def _keys_in(target: cst.BaseExpression, name: str) -> list[str | int]:
    """Return where a name stands in the target of a loop."""
    if isinstance(target, cst.Name) and target.value == name:
        return []
    if isinstance(target, cst.Tuple | cst.List):
        for place, element in enumerate(target.elements):
            if isinstance(element, cst.StarredElement):
                raise NotSafe("the loop takes its batch apart with a star")
            if binds(element.value, name):
                return [place, *_keys_in(element.value, name)]
    raise NotSafe(f"{name} is not a part of the batch")


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
