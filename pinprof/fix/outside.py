"""Uses of a batch where its loop does not bind it anew: behind the loop, between its passes, in other functions."""

import libcst as cst

from pinprof.fix.bindings import binds, uses_in
from pinprof.fix.names import is_target
from pinprof.fix.rewrite import NotSafe
from pinprof.fix.source import Loop, Scope, SourceFile


def check_outside(source: SourceFile, loop: Loop, name: str) -> None:
    """Raise Refusal where something else than a loop's body may use the last batch, or the one that it copies."""
    scope = source.scope(loop)
    for node in uses_in(source, scope, name):
        around = [node, *source.around(node)]
        if loop.body in around or _is_bound_around(loop, name, around):
            continue
        line = source.line(node)
        if source.scope(node) is not scope:
            if not _is_of_another(source, node, scope):
                raise NotSafe(f"a function or a class uses {name}, in line {line}, and may write to it")
        elif line > source.end(loop.body) or loop in around:
            raise NotSafe(f"{name} is used after its loop, in line {line}")
        elif not is_target(source, node) and _comes_again(source, loop, around):
            raise NotSafe(f"{name} is used before its loop, in line {line}, where it may be the batch of another pass")


def _is_bound_around(loop: Loop, name: str, around: list[cst.CSTNode]) -> bool:
    """Return whether a use is in what a for loop binds, or behind it in another one: there the name is that one's."""
    return any(
        isinstance(each, cst.For) and binds(each.target, name) and (each is not loop or each.target in around)
        for each in around
    )


def _comes_again(source: SourceFile, loop: Loop, around: list[cst.CSTNode]) -> bool:
    """Return whether one more loop is around a loop, and a node that comes before it."""
    return any(isinstance(each, cst.For | cst.While) and each in around for each in source.around(loop))


def _is_of_another(source: SourceFile, node: cst.Name, scope: Scope) -> bool:
    """Return whether a name in a function or a class within a scope is a variable of that one's own."""
    inner = source.scope(node)
    while inner is not scope:
        if _has_own(source, inner, node.value):
            return True
        inner = source.scope(inner)
    return False


def _has_own(source: SourceFile, scope: Scope, name: str) -> bool:
    """Return whether a function or a class binds a name for itself, not for the program or for what is around it."""
    uses = [each for each in uses_in(source, scope, name) if source.scope(each) is scope]
    around = [source.parent(each) for each in uses]
    is_param = any(isinstance(each, cst.Param) and each.name in uses for each in around)
    return not any(isinstance(each, cst.NameItem) for each in around) and (
        is_param or any(is_target(source, each) for each in uses)
    )
