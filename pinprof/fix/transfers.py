"""`non_blocking=True` on copies of batches from pinned memory to the GPU."""

from typing import NamedTuple

import libcst as cst

from pinprof.fix.batches import check_uses, keys_in, method, part, path_of, target_of
from pinprof.fix.bindings import binds, bound_to, uses_in
from pinprof.fix.calls import argument, check_plain, with_argument
from pinprof.fix.rewrite import NotSure, Rewrite
from pinprof.fix.source import SourceFile
from pinprof.fix.told import Told
from pinprof.trace.lines import Place
from pinprof.trace.made import DENSE, MadeLoader


class Copied(NamedTuple):
    """A copy of a batch, or of a part of it."""

    source: SourceFile
    call: cst.Call
    loader: MadeLoader


def copies_of(source: SourceFile, place: Place, told: Told) -> list[Copied]:
    """Return the calls on a line that copy parts of a batch to the GPU. Raises NotSure unless all of its calls do."""
    if not told.are_to_gpu(place):
        raise NotSure("the trace has no copy to the GPU at this line alone")
    calls = [call for call in source.calls(place.line or 0) if method(call) in {"to", "cuda"}]
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


def _loader_of(source: SourceFile, call: cst.Call, place: Place, told: Told) -> MadeLoader:
    """Return the DataLoader whose batch a call copies. Raises NotSure where the batch may come from elsewhere."""
    copied = cst.ensure_type(call.func, cst.Attribute).value
    name, keys = path_of(copied)
    loop = source.loop(call)
    if not isinstance(loop, cst.For):
        raise NotSure("no loop around the line draws the batch; it may be written to while it is copied")
    names: list[tuple[str, cst.CSTNode | None]] = [(name, None)]
    if not binds(loop.target, name):
        apart, whole, within = _unpacked(source, loop, name)
        names, name, keys = [(name, None), (whole, apart)], whole, [*within, *keys]
    target = target_of(loop)
    loader = told.loader_of(place, source.line(loop))
    if loader is None:
        raise NotSure("the trace does not show that the loop draws from one DataLoader")
    kind = part(loader.batch, [*keys_in(target, name), *keys])
    if kind != DENSE:
        raise NotSure(f"{source.code(copied)} is not known to be a tensor of the batch")
    for each, taken in names:
        check_uses(source, loop, each, taken, lambda line: told.are_to_gpu(place._replace(line=line)))
    return loader


def _unpacked(source: SourceFile, loop: cst.For, name: str) -> tuple[cst.CSTNode, str, list[str | int]]:
    """Return what a name is a part of, where the loop's body takes the batch apart: `x, y = batch`.

    First comes the node of that batch, then its name, then where in it the part is.
    """
    for node in uses_in(source, loop.body, name):
        bound = bound_to(source, node)
        if bound is None:
            continue
        value, keys = bound
        is_whole = isinstance(value, cst.Name) and binds(loop.target, value.value)
        if isinstance(value, cst.Name) and is_whole and source.parent(source.statement(node)) is loop.body:
            return value, value.value, keys
        break
    raise NotSure(f"{name} is not the batch of the loop around the line; it may be written to while it is copied")
