"""Keep the tensors of a list until it is used, after the loop that fills it."""

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m
from libcst.helpers import parse_template_expression as expression
from libcst.helpers import parse_template_statement as line_of_code

from pinprof.fix.core.facts import Work
from pinprof.fix.core.numbers import Read
from pinprof.fix.core.read_later import HeldNumber, ReadLater
from pinprof.fix.core.rewrite import NotSafe, PlaceChange, Rewrite, Waits, atom, parts_of
from pinprof.fix.core.source import Loop, SourceFile, comes_after
from pinprof.fix.core.uses import check_is_builtin
from pinprof.fix.core.waits import check_errors_pass

LIST, NUMBER = (m.SaveMatchedNode(m.DoNotCare(), name) for name in ("list", "number"))
APPENDS = m.Call(func=m.Attribute(LIST, m.Name("append")), args=[m.Arg(NUMBER, keyword=None, star="")])
GROWS = m.Expr(APPENDS) | m.AugAssign(LIST, m.AddAssign(), m.List([m.Element(NUMBER)]))
"""`losses.append(x)`, `losses += [x]`."""
EMPTY = m.List([]) | m.Call(m.Name("list"), [])
ENDLESS = {"range", "count", "cycle", "repeat", "iter", "trange"}
"""Functions whose loop may have many more steps than an epoch: each step would keep memory of the GPU."""


class ListOnGpu(ReadLater):
    """Keeps the tensors of a list, and reads their numbers after the loop that fills it."""

    guide = (("a list that is used behind the loop of an epoch keeps tensors until then", "equal"),)
    INVALID = (
        """
        losses = []
        for x in loader:
            losses.append(x.mean().item())  #? PIN201
        print(sum(losses))
        # becomes
        losses = []
        for x in loader:
            losses.append(x.mean().detach().clone())
        losses = [value.item() for value in losses]
        print(sum(losses))
        """,
    )
    VALID = (
        """
        losses = []
        for x in loader:
            losses.append(x.mean().item())  #? PIN201
            print(losses[-1])
        # stays: losses is also used within its loop, in line 4
        """,
        """
        losses = []
        for step in range(9):
            losses.append(x.mean().item())  #? PIN201
        print(losses)
        # stays: the loop over range() may have any number of steps, and each would keep memory
        """,
    )

    def variable(self, statement: cst.BaseSmallStatement, read: Read) -> cst.BaseExpression | None:
        """Return the list to which the number alone is added."""
        parts = parts_of(statement, GROWS)
        return parts["list"] if parts and parts["number"] is read.node else None

    def read_later(self, source: SourceFile, held: HeldNumber, work: Work) -> PlaceChange:
        """Return the change that keeps the tensors of a list, and reads them after its loop. Raises Refusal."""
        loop = _filling(source, held)
        with work.condition():
            check_errors_pass(source, held.read.node, loop)
        with work.condition():
            _check_memory(source, loop, held.loop)
        _check_uses(source, held, loop)
        read = held.read
        kept = source.replacement(
            read.node, "stays on the GPU", expression("{x}.detach().clone()", x=atom(read.tensor))
        )
        after = _read_after(source, held.name.value, loop, read.function)
        lost = tuple(start for start, _ in held.uses.set)
        return PlaceChange([kept, after], Waits(source.file, (read.node,), (after.node,), lost))


def _read_after(source: SourceFile, name: str, loop: cst.For, function: str) -> Rewrite:
    """Return the rewrite that reads the numbers of a list of tensors after its loop."""
    number = "value.item()" if function == "item" else f"{function}(value)"
    line = line_of_code(f"{name} = [{number} for value in {name}]", config=source.module.config_for_parsing)

    def followed(new: cst.CSTNode) -> "cst.FlattenSentinel[cst.BaseStatement]":
        return cst.FlattenSentinel([cst.ensure_type(new, cst.For), line])

    return source.rewrite(loop, f"{name} is read after it", followed)


def _filling(source: SourceFile, held: HeldNumber) -> cst.For:
    """Return the outermost loop that begins after the list does: after it, the list is complete.

    There the variable may get another value: `losses = sum(losses)`.
    """
    name = held.name.value
    starts = [source.statement(start) for start, value in held.uses.set if m.matches(value, EMPTY)]
    if any(isinstance(value, cst.Call) for _, value in held.uses.set):
        check_is_builtin(source, "list")
    if any(isinstance(start.body[0], cst.Assign) and len(start.body[0].targets) > 1 for start in starts):
        raise NotSafe(f"{name} has another name")
    others = [start for start, value in held.uses.set if not m.matches(value, EMPTY)]
    for loop in _loops(source, held.statement):
        block = source.parent(loop)
        if not any(comes_after(source, loop, start) and source.parent(start) is block for start in starts):
            continue
        if not all(comes_after(source, other, loop) for other in others):
            break
        if isinstance(loop, cst.For):
            return loop
        raise NotSafe("a while loop fills the list, and it is unknown how much memory of the GPU it would keep")
    if others:
        raise NotSafe(f"{name} is also set to something else than an empty list")
    raise NotSafe(f"{name} does not begin as [] before its loop, in the same function")


def _loops(source: SourceFile, node: cst.CSTNode) -> Iterator[Loop]:
    """Yield the loops around a node within its function, the innermost first."""
    while (loop := source.loop(node)) is not None:
        yield loop
        node = loop


def _check_memory(source: SourceFile, loop: cst.For, inner: Loop) -> None:
    """Raise Refusal if a list may grow for more than an epoch: each number keeps 512 bytes of the GPU's memory."""
    if source.loop(loop) is not None:
        return  # the list begins anew in each pass of the outer loop
    if inner is not loop:
        raise NotSafe("the list grows over several loops, and each number would keep memory of the GPU")
    for name in source.names_in(loop.iter):
        if name in ENDLESS:
            raise NotSafe(f"the loop over {name}() may have any number of steps, and each would keep memory")


def _check_uses(source: SourceFile, held: HeldNumber, loop: cst.For) -> None:
    """Raise Refusal if anything but the length of a list is used before the end of its loop."""
    name, statement = held.name.value, held.statement
    read = [use for use in held.uses.read if not source.is_within(use, statement)]
    if not read and not any(change is not statement for change in held.uses.changed):
        raise NotSafe(f"nothing uses {name}; remove the line")
    others = [use for use in read if not _is_counted(source, use)]
    others += [cst.ensure_type(use.target, cst.Name) for use in held.uses.changed if use is not statement]
    for other in others:
        if source.is_within(other, loop):
            raise NotSafe(f"{name} is also used within its loop, in line {source.line(other)}")
        if not comes_after(source, other, loop):
            raise NotSafe(f"{name} is also used in line {source.line(other)}, which may not follow its loop")


def _is_counted(source: SourceFile, node: cst.Name) -> bool:
    """Return whether only the length of a list is asked for: `len(losses)`."""
    argument = source.parent(node)
    is_length = m.matches(source.parent(argument or node) or node, m.Call(m.Name("len"), [m.Arg(m.Name(node.value))]))
    if is_length:
        check_is_builtin(source, "len")
    return is_length
