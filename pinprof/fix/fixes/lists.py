"""Lists of numbers of the GPU: tensors until they are used, behind their loop."""

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m
from libcst.helpers import parse_template_expression as expression

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.numbers import Read, check_is_tensor, other_form, read_at, statement_of
from pinprof.fix.core.rewrite import Change, NotSafe, Rewrite, Waits, atom, parts_of
from pinprof.fix.core.source import Loop, Scope, SourceFile, comes_after, loop_of_read
from pinprof.fix.core.uses import Uses, check_is_builtin, check_is_local, local_uses
from pinprof.fix.core.waits import check_may_come_later
from pinprof.fix.fixes.sums import LATER, SAFE_LATER
from pinprof.trace.lines import Place

LIST, NUMBER = (m.SaveMatchedNode(m.DoNotCare(), name) for name in ("list", "number"))
APPENDS = m.Call(func=m.Attribute(LIST, m.Name("append")), args=[m.Arg(NUMBER, keyword=None, star="")])
GROWS = m.Expr(APPENDS) | m.AugAssign(LIST, m.AddAssign(), m.List([m.Element(NUMBER)]))
"""`losses.append(x)`, `losses += [x]`."""
ENDLESS = {"range", "count", "cycle", "repeat", "iter", "trange"}
"""What may go through many more steps than an epoch has: each keeps memory of the GPU."""


class ListOnGpu(LineFix):
    """Keeps the tensors of a list, and reads their numbers behind the loop that fills it."""

    rules = ("PIN201", "PIN203")
    what = LATER
    safe_if = SAFE_LATER
    guide = (
        (
            "a list that is used behind the loop of an epoch keeps tensors until then",
            "equal",
        ),
    )
    INVALID = (
        (
            """
            losses = []
            for x in loader:
                losses.append(x.mean().item())  #? PIN201
            print(sum(losses))
            """,
            """
            losses = []
            for x in loader:
                losses.append(x.mean().detach().clone())
            losses = [each.item() for each in losses]
            print(sum(losses))
            """,
        ),
    )
    VALID = (
        (
            """
            losses = []
            for x in loader:
                losses.append(x.mean().item())  #? PIN201
                print(losses[-1])
            """,
            "losses is also used within its loop, in line 4",
        ),
        (
            """
            losses = []
            for step in range(9):
                losses.append(x.mean().item())  #? PIN201
            print(losses)
            """,
            "the loop over range() may have any number of steps, each of which would keep memory",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> Change:
        """Return the change that keeps the tensors of a list, and reads them where it is used. Raises Refusal."""
        return _kept_in_list(source, read_at(source, place.line or 0), work)


def _kept_in_list(source: SourceFile, read: Read, work: Work) -> Change:
    name, node = _grown(source, read)
    inner = loop_of_read(source, node, f"fills {name.value}")
    with work.condition():
        check_is_local(source, name)
    uses = local_uses(source, name)
    loop = _filling(source, name, node, uses)
    with work.condition():
        _check_memory(source, loop, inner)
    _check_uses(source, name, node, uses, loop)
    with work.condition():
        check_may_come_later(source, read.node, inner)
    with work.condition():
        check_is_tensor(source, read)
    behind = _read_behind(source, name.value, loop, read.function)
    kept = source.anew(read.node, "stays on the GPU", expression("{x}.detach().clone()", x=atom(read.tensor)))
    lost = tuple(start for start, _ in uses.set)
    return Change([kept, behind], Waits(source.file, (read.node,), (behind.node,), lost))


def _read_behind(source: SourceFile, name: str, loop: cst.For, function: str) -> Rewrite:
    """Return the rewrite that reads a list behind its loop."""

    def followed(new: cst.CSTNode) -> "cst.FlattenSentinel[cst.BaseStatement]":
        return cst.FlattenSentinel([cst.ensure_type(new, cst.For), _numbers_of(name, function)])

    return source.rewrite(loop, f"{name} is read behind it", followed)


def _filling(source: SourceFile, name: cst.Name, node: cst.CSTNode, uses: Uses) -> cst.For:
    """Return the loop behind which a list is whole: the outermost one that begins after the list does.

    Behind it the variable may get another value: `losses = sum(losses)`.
    """
    starts = [source.statement(start) for start, value in uses.set if _is_empty(source, value)]
    if any(map(_is_shared, starts)):
        raise NotSafe(f"{name.value} has another name")
    others = [start for start, value in uses.set if not _is_empty(source, value)]
    for loop in _loops(source, node):
        begun = [start for start in starts if comes_after(source, loop, start) and _beside(source, start, loop)]
        if not begun:
            continue
        if not all(comes_after(source, path, loop) for path in others):
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
    for outer in source.around(node):
        if isinstance(outer, Scope):
            return
        if isinstance(outer, cst.For | cst.While):
            yield outer


def _check_memory(source: SourceFile, loop: cst.For, inner: Loop) -> None:
    """Raise Refusal where a list may grow over more than an epoch: each number keeps 512 bytes of the GPU's memory."""
    if source.loop(loop) is not None:
        return  # the list begins anew in each pass of the outer loop
    if inner is not loop:
        raise NotSafe("the list grows over several loops, and each number would keep memory of the GPU")
    for name in source.names_in(loop.iter):
        if name in ENDLESS:
            raise NotSafe(f"the loop over {name}() may have any number of steps, each of which would keep memory")


def _check_uses(source: SourceFile, name: cst.Name, node: cst.CSTNode, uses: Uses, loop: cst.For) -> None:
    """Raise Refusal unless a list is used behind its loop alone, or before it begins."""
    others = [use for use in uses.read if not source.is_within(use, node) and not _is_counted(source, use)]
    others += [cst.ensure_type(use.target, cst.Name) for use in uses.changed if use is not node]
    for path in others:
        if source.is_within(path, loop):
            raise NotSafe(f"{name.value} is also used within its loop, in line {source.line(path)}")
        if not comes_after(source, path, loop):
            raise NotSafe(f"{name.value} is also used in line {source.line(path)}, which may not follow its loop")
    if not others and all(source.is_within(use, node) for use in uses.read):
        raise NotSafe(f"nothing uses {name.value}; remove the line")


def _grown(source: SourceFile, read: Read) -> tuple[cst.Name, cst.BaseSmallStatement]:
    """Return the variable of the list to which a number alone is added, and the statement."""
    small = statement_of(source, read)
    found = parts_of(small, GROWS)
    name = found["list"] if found and found["number"] is read.node else None
    if name is None:
        raise other_form(source, read)
    if not isinstance(name, cst.Name):
        raise NotSafe(f"{source.code(name)} is not a variable of the function: other code may read it")
    return name, small


def _is_empty(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Return whether an expression is a list without elements."""
    if isinstance(value, cst.List):
        return not value.elements
    if source.code(value) == "list()":
        check_is_builtin(source, "list")
        return True
    return False


def _is_shared(start: cst.SimpleStatementLine) -> bool:
    """Return whether a list gets two names where it begins: `a = b = []`."""
    small = start.body[0]
    return isinstance(small, cst.Assign) and len(small.targets) > 1


def _given_to(source: SourceFile, node: cst.Name) -> cst.Call | None:
    """Return the call that gets a variable as an argument by itself."""
    argument = source.parent(node)
    call = source.parent(argument) if isinstance(argument, cst.Arg) and not argument.star else None
    return call if isinstance(call, cst.Call) else None


def _is_counted(source: SourceFile, node: cst.Name) -> bool:
    """Return whether only the length of a list is asked for: `len(losses)`."""
    call = _given_to(source, node)
    if call is None or not isinstance(call.func, cst.Name) or call.func.value != "len":
        return False
    check_is_builtin(source, "len")
    return True


def _numbers_of(name: str, function: str) -> cst.SimpleStatementLine:
    """Return the line that makes a list of numbers of a list of tensors."""
    text = "[each.item() for each in {x}]" if function == "item" else f"[{function}(each) for each in {{x}}]"
    values = cst.Assign([cst.AssignTarget(cst.Name(name))], expression(text, x=cst.Name(name)))
    return cst.SimpleStatementLine([values])
