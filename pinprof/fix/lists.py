"""Lists of numbers of the GPU: tensors until they are used, behind their loop."""

from collections.abc import Iterator

import libcst as cst

from pinprof.fix.grown import grown, is_counted, is_empty, is_shared, numbers_of
from pinprof.fix.kinds import is_tensor
from pinprof.fix.names import (
    Uses,
    comes_after,
    uses_of,
)
from pinprof.fix.reads import Read, check_is_tensor, read_at
from pinprof.fix.rewrite import Change, NotSafe, Rewrite, Waits, atom, call_of
from pinprof.fix.source import Loop, Scope, SourceFile
from pinprof.fix.waits import check_may_come_later, loop_of_read

ENDLESS = {"range", "count", "cycle", "repeat", "iter", "trange"}
"""What may go through many more steps than an epoch has: each keeps memory of the GPU."""


def kept_in_list(source: SourceFile, line: int) -> Change:
    """Return the change that keeps the tensors of a list, and reads them where it is used. Raises Refusal."""
    read = read_at(source, line)
    name, node = grown(source, read)
    inner = loop_of_read(source, node, f"fills {name.value}")
    uses = uses_of(source, name)
    behind = _read_behind(source, read, name, node, uses, inner)
    check_may_come_later(source, read.node, inner)
    check_is_tensor(source, read)
    if read.function != "item" and not is_tensor(source, read.tensor, read.node):
        raise NotSafe(f"{source.code(read.tensor)} may be no tensor")
    kept = source.anew(read.node, "stays on the GPU", call_of("X.detach().clone()", X=atom(read.tensor)))
    lost = tuple(start for start, _ in uses.set)
    return Change([kept, behind], Waits(source.file, (read.node,), (behind.node,), lost))


def _read_behind(
    source: SourceFile, read: Read, name: cst.Name, node: cst.BaseSmallStatement, uses: Uses, inner: Loop
) -> Rewrite:
    """Return the rewrite that reads a list behind its loop, where nothing uses it before. Raises Refusal."""
    loop = _filling(source, name, node, uses)
    _check_memory(source, loop, inner)
    _check_uses(source, name, node, uses, loop)

    def followed(made: cst.CSTNode) -> "cst.FlattenSentinel[cst.BaseStatement]":
        return cst.FlattenSentinel([cst.ensure_type(made, cst.For), numbers_of(name.value, read.function)])

    return source.rewrite(loop, f"{name.value} is read behind it", followed)


def _filling(source: SourceFile, name: cst.Name, node: cst.CSTNode, uses: Uses) -> cst.For:
    """Return the loop behind which a list is whole: the outermost one that begins after the list does.

    Behind it the variable may get another value: `losses = sum(losses)`.
    """
    starts = [source.statement(start) for start, value in uses.set if is_empty(source, value)]
    if any(map(is_shared, starts)):
        raise NotSafe(f"{name.value} has another name")
    others = [start for start, value in uses.set if not is_empty(source, value)]
    for loop in _loops(source, node):
        begun = [start for start in starts if comes_after(source, loop, start) and _beside(source, start, loop)]
        if not begun:
            continue
        if not all(comes_after(source, each, loop) for each in others):
            break
        if isinstance(loop, cst.For):
            return loop
        raise NotSafe("a while loop fills the list: nobody knows how much memory of the GPU it would keep")
    if others:
        raise NotSafe(f"{name.value} is also set to something else than an empty list")
    raise NotSafe(f"{name.value} does not begin as [] before its loop, in the same function")


def _beside(source: SourceFile, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    return source.parent(one) is source.parent(other)


def _loops(source: SourceFile, node: cst.CSTNode) -> Iterator[Loop]:
    """Yield the loops around a node within its function, the innermost first."""
    for each in source.around(node):
        if isinstance(each, Scope):
            return
        if isinstance(each, cst.For | cst.While):
            yield each


def _check_memory(source: SourceFile, loop: cst.For, inner: Loop) -> None:
    """Raise Refusal where a list may grow over more than an epoch: each number keeps 512 bytes of the GPU's memory."""
    if source.loop(loop) is not None:
        return  # the list begins anew in each pass of the outer loop
    if inner is not loop:
        raise NotSafe("the list grows over several loops, and each number would keep memory of the GPU")
    for each in source.names_in(loop.iter):
        if each in ENDLESS:
            raise NotSafe(f"the loop over {each}() may have any number of steps, each of which would keep memory")


def _check_uses(source: SourceFile, name: cst.Name, node: cst.CSTNode, uses: Uses, loop: cst.For) -> None:
    """Raise Refusal unless a list is used behind its loop alone, or before it begins."""
    others = [each for each in uses.read if not source.is_within(each, node) and not is_counted(source, each)]
    others += [cst.ensure_type(each.target, cst.Name) for each in uses.changed if each is not node]
    for each in others:
        if source.is_within(each, loop):
            raise NotSafe(f"{name.value} is also used within its loop, in line {source.line(each)}")
        if not comes_after(source, each, loop):
            raise NotSafe(f"{name.value} is also used in line {source.line(each)}, which may not follow its loop")
    if not others and all(source.is_within(each, node) for each in uses.read):
        raise NotSafe(f"nothing uses {name.value}; remove the line")
