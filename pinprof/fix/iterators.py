"""Batches that a loop asks for by `next()`: the statement that asks, and the iterators that it asks."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from pinprof.fix.bindings import bound_to, uses_in
from pinprof.fix.names import Uses, check_is_builtin, is_grown, is_set_by_others, is_target, uses_of
from pinprof.fix.rewrite import NotSafe
from pinprof.fix.source import Loop, SourceFile

LEAVES = (cst.Break, cst.Continue, cst.Return, cst.Raise)
"""Statements behind which the step does not go on."""


class Asked(NamedTuple):
    """How a loop asks for its batches: `batch = next(batches)`, in each step."""

    targets: tuple[cst.BaseExpression, ...]
    """What it binds to a batch, all of one form: once more where the iterator had ended."""
    begun: tuple[int, ...]
    """The lines that begin to draw: of `batches = iter(loader)`."""
    alike: bool
    """Whether the source shows that all of these begin to draw from the same thing."""


def asked_for(source: SourceFile, loop: Loop, name: str, at: cst.CSTNode) -> Asked | None:
    """Return how a loop asks for what it binds to a name before `at`; None where it does not. Raises Refusal."""
    assigns = list(_asking(source, loop, name))
    if not assigns:
        return None
    for function in ("next", "iter"):
        check_is_builtin(source, function)
    asked = [_iterator_of(source, cst.ensure_type(each.value, cst.Call)) for each in assigns]
    targets = tuple(each.targets[0].target for each in assigns)
    if len({each.value for each in asked}) > 1 or len({source.code(each) for each in targets}) > 1:
        raise NotSafe(f"{name} is drawn in several ways")
    drawing = _drawing(source, loop, name, [source.statement(each.value) for each in assigns])
    if source.line(at) <= source.end(drawing):
        raise NotSafe(
            f"{name} is drawn in line {source.line(drawing)}, behind the line: it is the batch of another step"
        )
    begun = _beginnings(source, loop, asked[0])
    return Asked(targets, tuple(source.line(each) for each in begun), _are_alike(source, begun))


def _asking(source: SourceFile, loop: Loop, name: str) -> Iterator[cst.Assign]:
    """Yield the assignments of a loop that bind what `next()` returns to a name, or a part of it."""
    for node in uses_in(source, loop.body, name):
        value = (bound_to(source, node) or (None,))[0]
        if not (_is_call_of(value, "next") and source.scope(node) is source.scope(loop)):
            continue
        assign = source.statement(node).body[0]
        if not (isinstance(assign, cst.Assign) and assign.value is value):
            raise NotSafe(f"{name} is drawn beside something else, in line {source.line(node)}")
        yield assign


def _is_call_of(node: cst.CSTNode | None, function: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == function


def _iterator_of(source: SourceFile, call: cst.Call) -> cst.Name:
    """Return the variable of which a call of `next()` asks for a batch."""
    if len(call.args) != 1 or call.args[0].star or call.args[0].keyword:
        raise NotSafe("next() may return its default, which is no batch")
    of = call.args[0].value
    if isinstance(of, cst.Call):
        raise NotSafe("each step makes an iterator of its own: draw all batches from one, and it can work ahead")
    if not isinstance(of, cst.Name):
        raise NotSafe(f"{source.code(of)} is not a variable of the function: other code may draw from it or change it")
    return of


def _drawing(
    source: SourceFile, loop: Loop, name: str, statements: Sequence[cst.SimpleStatementLine]
) -> cst.BaseCompoundStatement | cst.SimpleStatementLine:
    """Return the statement of a loop's body that draws in each step. Raises Refusal unless that is certain."""
    first = statements[0]
    if len(statements) == 1 and source.parent(first) is loop.body:
        return first
    around = next((each for each in source.around(first) if source.parent(each) is loop.body), None)
    if isinstance(around, cst.Try) and _always_draws(around, statements):
        return around
    raise NotSafe(f"{name} is drawn in several places, or not in each step, in line {source.line(first)}")


def _always_draws(tried: cst.Try, statements: Sequence[cst.SimpleStatementLine]) -> bool:
    """Return whether a `try` does nothing but draw, and draws once more, or leaves the step, if that fails."""
    blocks = [tried.body, *(each.body for each in tried.handlers)]
    within = [each for block in blocks for each in block.body if each in statements]
    return (
        len(within) == len(statements)
        and list(tried.body.body) == [statements[0]]
        and not (tried.orelse or tried.finalbody)
        and all(any(each in statements for each in block.body) or _leaves(block) for block in blocks)
    )


def _leaves(block: cst.BaseSuite) -> bool:
    last = block.body[-1]
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], LEAVES)


def _beginnings(source: SourceFile, loop: Loop, iterator: cst.Name) -> list[cst.Call]:
    """Return the calls of `iter()` that make an iterator, which nothing but `next()` uses. Raises Refusal."""
    name, uses = iterator.value, uses_of(source, iterator)
    if not uses.set:
        raise NotSafe(f"{name} is not made in the same function")
    for node in uses.read:
        argument = source.parent(node)
        if not (isinstance(argument, cst.Arg) and _is_call_of(source.parent(argument), "next")):
            raise NotSafe(f"{name} is also used in line {source.line(node)}, by what may draw from it or keep it")
    return list(_made(source, loop, name, uses))


def _made(source: SourceFile, loop: Loop, name: str, uses: Uses) -> Iterator[cst.Call]:
    """Yield the calls of `iter()` whose values an iterator's name gets; it gets nothing else. Raises Refusal."""
    for node, value in uses.set:
        line = source.line(node)
        is_plain = isinstance(value, cst.Call) and len(value.args) == 1 and not value.args[0].star
        if uses.changed or not (is_plain and _is_call_of(value, "iter")) or bound_to(source, node) is None:
            raise NotSafe(f"{name} is more than iter() of a DataLoader, in line {line}")
        if source.parent(source.statement(node)) is loop.body:
            raise NotSafe("each step makes an iterator of its own: draw all batches from one, and it can work ahead")
        made = cst.ensure_type(value, cst.Call)
        if sum(_is_call_of(each, "iter") for each in source.calls(source.line(made))) > 1:
            raise NotSafe(f"several iterators begin in line {line}")
        yield made


def _are_alike(source: SourceFile, begun: Sequence[cst.Call]) -> bool:
    """Return whether calls of `iter()` are of one variable, which the function binds once."""
    of = [each.args[0].value for each in begun]
    first = of[0]
    if not isinstance(first, cst.Name) or any(source.code(each) != first.value for each in of):
        return False
    scope = source.scope(first)
    own = [each for each in uses_in(source, scope, first.value) if source.scope(each) is scope]
    return sum(_is_bound(source, each) for each in own) == 1 and not is_set_by_others(source, first.value)


def _is_bound(source: SourceFile, node: cst.Name) -> bool:
    parent = source.parent(node)
    return is_target(source, node) or is_grown(source, node) or (isinstance(parent, cst.Param) and parent.name is node)
