"""Sums of numbers that each step copies to the host, and uses every so many: they stay on the GPU."""

from typing import NamedTuple

import libcst as cst

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix, by_hand
from pinprof.fix.core.order import loop_of_read
from pinprof.fix.core.reads import is_copy_to_host
from pinprof.fix.core.rewrite import Change, NotSafe, NotThisForm, Rewrite, Waits, call_of
from pinprof.fix.core.source import SourceFile
from pinprof.fix.core.uses import check_is_builtin, check_is_local, local_uses
from pinprof.fix.core.values import compared_there, is_count, is_real, is_shown, is_value_of_text
from pinprof.fix.core.waits import check_is_of_one_mode, check_may_come_later
from pinprof.fix.fixes.sums import (
    LATER,
    Sum,
    check_factor,
    check_has_torch,
    check_is_of_one_gpu,
    check_sum,
    is_added_before,
    is_divided,
    sum_of,
)
from pinprof.trace.lines import Place

READING = {"item", "tolist"}
"""Methods that make numbers of Python, from wherever a tensor is."""
PERHAPS_THE_SAME = {"float", "double", "long", "cpu", "numpy"}
"""Methods that may return the tensor itself, or its memory."""
MAKING = {"print", "str", "repr", "int", "float"}
"""Functions that make something else of a tensor at once."""


class Copied(NamedTuple):
    """An expression that copies a number to the host."""

    node: cst.BaseExpression
    there: cst.BaseExpression
    """The same without the copy."""
    is_count: bool


class SumUntilCopied(LineFix):
    """Copies a sum to the host where it is used, not each number that is added to it."""

    rules = ("PIN203",)
    what = LATER
    safe_if = (
        "Nothing else relies on the removed wait. The GPU adds the same numbers in the same order, of the type that "
        "they have on the host (float64, if Python adds them), and the program reads the sum where it uses it."
    )
    guide = (
        (
            (
                'a count or a loss that goes into a sum (`correct += pred.eq(y).sum().cpu()`, with `.to("cpu")` too) '
                "stays on the GPU; the sum is copied where it is used, and is a tensor of the host there as before"
            ),
            "equal; rounding where the number is divided",
        ),
    )
    INVALID = (
        (
            """
            right = 0
            for x, y in loader:
                right += model(x).eq(y).sum().cpu()  #? PIN203
            print(int(right))
            """,
            """
            right = 0
            for x, y in loader:
                right += model(x).eq(y).sum()
            print(int(right))
            """,
        ),
    )
    VALID = (
        (
            """
            right = 0
            for x, y in loader:
                right += model(x).eq(y).sum().cpu()  #? PIN203
                print(right)
            """,
            "right is read in each step, in line 4: read it every N steps",
        ),
        (
            """
            for x in loader:
                show(x.cpu())  #? PIN203
            """,
            "no change is mechanical and certain",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> Change:
        """Return the change that copies a sum where it is used, not each number that is added. Raises Refusal."""
        line = place.line or 0
        copied = _copied_at(source, line)
        added = sum_of(source, source.statement(copied.node).body[0]) if copied else None
        if copied is None or added is None:
            raise NotThisForm(by_hand(self.rules[0]))
        with work.condition():
            check_is_of_one_gpu(work)
        return _kept_until_copied(source, copied, added, work)


def _kept_until_copied(source: SourceFile, copied: Copied, added: Sum, work: Work) -> Change:
    with work.condition():
        _check_is_number(source, copied)
    loop = loop_of_read(source, added.node, "makes the sum")
    with work.condition():
        check_is_local(source, added.total)
    uses = local_uses(source, added.total)
    with work.condition():
        check_factor(source, copied.node, added.value)
    check_sum(source, uses, added, loop)
    for each in uses.changed:
        if each is not added.node:
            where = f"in line {source.line(each)}, which may round otherwise"
            raise NotSafe(f"{source.code(added.total)} is also changed {where}")
    with work.condition():
        check_may_come_later(source, copied.node, loop)
        check_is_of_one_mode(source, copied.node)
    reads = [node for node in uses.read if not source.is_within(node, added.node)]
    sure = {id(node): is_added_before(source, node, added, loop, uses) for node in reads}
    rewrites = [new for node in reads for new in _copy_of(source, node, copied, is_sure=sure[id(node)])]
    kept = source.anew(copied.node, "stays on the GPU", copied.there)
    lost = tuple(node for node, _ in uses.set if not source.is_within(node, added.node))
    waits = Waits(source.file, (copied.node,), tuple(reads), lost)
    return Change([kept, *rewrites], waits, numbers="rounding" if is_divided(added.value) else "equal")


def _copied_at(source: SourceFile, line: int) -> Copied | None:
    """Return the expression on a line that copies a number to the host, if there is one alone."""
    found = [each for call in source.calls(line) if (each := _as_copied(source, call))]
    return found[0] if len(found) == 1 else None


def _check_is_number(source: SourceFile, copied: Copied) -> None:
    """Raise Refusal unless what is copied is a count, or a loss without its gradients."""
    if not (copied.is_count or is_real(source, _bare(copied.there), copied.node)):
        raise NotSafe(f"{source.code(copied.node)} is not known to be a count, or one number without gradients")
    if not copied.is_count and not _is_detached(copied.there):
        raise NotSafe(f"{source.code(copied.node)} keeps the gradients of each step: detach it")


def _as_copied(source: SourceFile, call: cst.Call) -> Copied | None:
    """Return what a call copies to the host; None for one that does not, or is a part of a longer chain."""
    parent = source.parent(call)
    if isinstance(parent, cst.Attribute) and parent.value is call:
        return None
    there, copies = _without_copies(source, call)
    count = is_count(source, _bare(there))
    if not copies and count:
        there, copies = compared_there(cst.ensure_type(there, cst.Call))
    return Copied(call, there, count) if copies else None


def _without_copies(source: SourceFile, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """Return a chain without the copies to the host at its end, and whether there are any."""
    if isinstance(node, cst.Attribute) and node.attr.value == "data":
        inner, copies = _without_copies(source, node.value)
        return (node.with_changes(value=inner), True) if copies else (node, False)
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
        return node, False
    if is_copy_to_host(node):
        return _without_copies(source, node.func.value)[0], True
    if node.func.attr.value == "detach" and not node.args:
        inner, copies = _without_copies(source, node.func.value)
        return (node.with_changes(func=node.func.with_changes(value=inner)), True) if copies else (node, False)
    return node, False


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a tensor without the `.detach()` and `.data` behind it."""
    if isinstance(node, cst.Attribute) and node.attr.value == "data":
        return _bare(node.value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "detach":
        return _bare(node.func.value)
    return node


def _is_detached(node: cst.BaseExpression) -> bool:
    return _bare(node) is not node


def _copy_of(source: SourceFile, node: cst.BaseExpression, copied: Copied, *, is_sure: bool) -> list[Rewrite]:
    """Return the rewrite that copies a sum where it is read; none where it reads the same on the GPU."""
    parent = source.parent(node)
    if isinstance(parent, cst.Attribute):
        if parent.attr.value in READING:
            return []
        if parent.attr.value not in PERHAPS_THE_SAME:
            raise NotSafe(f"line {source.line(node)} may change the sum itself")
        is_sure = True  # a number of Python would fail there, too
    if copied.is_count and is_value_of_text(source, node):
        return []
    _check_is_used_up(source, node)
    if _called(source, node) in {"int", "float"}:
        return []
    if not is_sure:
        check_has_torch(source, node)
    text = "X.cpu()" if is_sure else "X.cpu() if torch.is_tensor(X) else X"
    if not (is_sure or isinstance(parent, cst.Return | cst.Arg)):
        text = f"({text})"
    return [source.rewrite(node, "copied here", lambda each: call_of(text, X=each))]


def _called(source: SourceFile, node: cst.CSTNode) -> str:
    """Return the name of a function of Python's own whose argument something is."""
    parent = source.parent(node)
    call = source.parent(parent) if isinstance(parent, cst.Arg) and not (parent.star or parent.keyword) else None
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in MAKING):
        return ""
    check_is_builtin(source, call.func.value)
    return call.func.value


def _check_is_used_up(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise Refusal where a sum is kept: what is added later changes it, and would not change a copy."""
    outer: cst.CSTNode = node
    while isinstance(parent := source.parent(outer), cst.Attribute) and parent.attr.value in PERHAPS_THE_SAME:
        outer = source.parent(parent) or parent
    around = source.parent(outer)
    group = source.parent(around) if isinstance(around, cst.Element) else None
    is_returned = isinstance(around, cst.Return) or (
        isinstance(group, cst.Tuple) and isinstance(source.parent(group), cst.Return)
    )
    is_new = isinstance(around, cst.BinaryOperation | cst.ComparisonTarget | cst.Comparison)
    if not (is_returned or is_new or _called(source, outer) or is_shown(source, outer)):
        raise NotSafe(f"line {source.line(node)} may keep the sum, which changes later")
