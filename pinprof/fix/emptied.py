"""Lists of numbers of the GPU that are used every N steps within their loop: read where that begins."""

from collections.abc import Iterable

import libcst as cst

from pinprof.fix.grown import given_to, is_counted, is_empty, is_shared, numbers_of
from pinprof.fix.names import Uses, asks_remainder, check_is_builtin, comes_after
from pinprof.fix.rewrite import NotSafe, Refusal, Remake, Rewrite, walk
from pinprof.fix.source import Loop, SourceFile
from pinprof.fix.waits import catches, check_errors_pass

LEAVES = (cst.Break, cst.Continue, cst.Return, cst.Raise, cst.Yield, cst.Await, cst.Try, cst.TryStar)
"""What may leave a block before the list is emptied, or go on after an error."""
LOOKING = {"sum", "len", "max", "min", "sorted", "print"}
"""Functions of Python that keep no list which they are given."""
LOOKING_AT = {f"numpy.{name}" for name in ("mean", "sum", "std", "median", "average", "max", "min", "array")} | {
    "statistics.mean",
    "torch.tensor",
}
"""And those of libraries."""


def is_used_within(source: SourceFile, node: cst.BaseSmallStatement, uses: Uses, loop: Loop) -> bool:
    """Return whether the values of a list are used, or it is emptied, in the loop that fills it."""
    others = [each for each in uses.read if not source.is_within(each, node) and not is_counted(source, each)]
    return any(source.is_within(each, loop.body) for each in (*others, *(start for start, _ in uses.set)))


def read_in_blocks(
    source: SourceFile, name: str, node: cst.BaseSmallStatement, uses: Uses, loop: Loop, *, function: str, real: bool
) -> list[Rewrite]:
    """Return the rewrites that read a list where a block begins that uses it every N steps. Raises Refusal.

    Where each block empties the list, it is always of tensors alone outside of them. Where one does not, numbers and
    tensors are mixed: that is for real numbers only, for `float()` leaves those as they are that it has made.
    """
    starts = _starts(source, name, node, uses, loop)
    clears = [each for each in uses.read if is_cleared(source, each)]
    used = [
        each for each in uses.read if not (source.is_within(each, node) or each in clears or is_counted(source, each))
    ]
    if not used:
        raise NotSafe(f"nothing reads {name}; remove the line")
    blocks = [_block(source, each, loop) for each in used]
    empties = [*starts, *map(source.statement, clears)]
    try:
        for each, block in zip(used, blocks, strict=True):
            _check_empties(source, each, block, empties)
    except Refusal:
        if not real:
            raise
        check_is_builtin(source, "float")
        _check_is_not_kept(source, used, "not emptied behind it")
        function = "float"
    if clears:
        _check_is_not_kept(source, used, "cleared later")
    for block in blocks:
        check_errors_pass(source, block, loop)
    _check_begins_anew(source, starts, loop)
    _check_memory(source, name, node, blocks)
    first = {id(block): block for block in blocks}.values()
    return [source.rewrite(block, f"{name} is read first", _begun_with(name, function)) for block in first]


def _starts(
    source: SourceFile, name: str, node: cst.BaseSmallStatement, uses: Uses, loop: Loop
) -> list[cst.SimpleStatementLine]:
    """Return where a list begins as an empty one. Raises Refusal unless it only ever does, first before its loop."""
    if any(each is not node for each in uses.changed):
        raise NotSafe(f"something else is added to {name}")
    if not all(is_empty(source, value) for _, value in uses.set):
        raise NotSafe(f"{name} is also set to something else than an empty list")
    starts = [source.statement(start) for start, _ in uses.set]
    if any(map(is_shared, starts)):
        raise NotSafe(f"{name} has another name")
    if not any(comes_after(source, loop, start) for start in starts):
        raise NotSafe(f"{name} does not begin as [] before its loop, in the same function")
    return starts


def _check_begins_anew(source: SourceFile, starts: list[cst.SimpleStatementLine], loop: Loop) -> None:
    """Raise Refusal where an error may leave a list of numbers, to which tensors are added later."""
    first = [each for each in starts if comes_after(source, loop, each)]
    for around in source.around(loop):
        if catches(source, around) and not any(source.is_within(each, around) for each in first):
            raise NotSafe(f"line {source.line(around)} may catch an error, and the list goes on with what is in it")


def _check_is_not_kept(source: SourceFile, used: list[cst.Name], why: str) -> None:
    """Raise Refusal where a use may keep a list that is the same one later."""
    for each in used:
        if not _is_looked_at(source, each):
            raise NotSafe(f"line {source.line(each)} may keep {each.value}, which is {why}")


def is_cleared(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a use of a list is `losses.clear()`, alone in its line."""
    attribute = source.parent(node)
    call = source.parent(attribute) if isinstance(attribute, cst.Attribute) and attribute.value is node else None
    if not (isinstance(call, cst.Call) and isinstance(attribute, cst.Attribute) and call.func is attribute):
        return False
    return attribute.attr.value == "clear" and isinstance(source.parent(call), cst.Expr)


def _is_looked_at(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a use of a list cannot keep it, and looks at all of it, as reading it anew does."""
    call = given_to(source, node)
    if call is None:
        return False
    if isinstance(call.func, cst.Name) and call.func.value in LOOKING:
        check_is_builtin(source, call.func.value)
        return True
    return source.qualified(call.func) in LOOKING_AT


def _block(source: SourceFile, node: cst.Name, loop: Loop) -> cst.IndentedBlock:
    """Return the block around a use that runs every so many steps. Raises Refusal."""
    inner: cst.CSTNode = node
    found: cst.IndentedBlock | None = None
    for each in source.around(node):
        if each is loop and inner is loop.body and found is not None:
            return found
        is_block = isinstance(each, cst.If) and inner is each.body and asks_remainder(each.test)
        if is_block and isinstance(inner, cst.IndentedBlock) and source.loop(each) is loop:
            found = inner
        inner = each
    line = source.line(node)
    if not source.is_within(node, loop.body):
        raise NotSafe(f"{node.value} is emptied within its loop, and also used behind it or before, in line {line}")
    raise NotSafe(f"{node.value} is also used within its loop, in line {line}, and not under `if step % N == 0:`")


def _check_empties(
    source: SourceFile, use: cst.Name, block: cst.IndentedBlock, emptied: list[cst.SimpleStatementLine]
) -> None:
    """Raise Refusal unless a block empties its list behind a use, in whatever way it ends."""
    last = [each for each in emptied if source.parent(each) is block]
    if not any(_is_before(source, use, each, block) for each in last):
        raise NotSafe(
            f"line {source.line(use)} uses {use.value} every N steps, and the list is not emptied behind it, in the "
            "same block"
        )
    if any(isinstance(each, LEAVES) for each in walk(block)):
        raise NotSafe(f"the block around line {source.line(use)} may end before it empties {use.value}")


def _is_before(source: SourceFile, use: cst.Name, line: cst.SimpleStatementLine, block: cst.IndentedBlock) -> bool:
    """Return whether a use is in a statement of a block that comes before another one of it."""
    mine = next(each for each in (use, *source.around(use)) if source.parent(each) is block)
    return comes_after(source, line, mine)


def _check_memory(source: SourceFile, name: str, node: cst.CSTNode, blocks: Iterable[cst.IndentedBlock]) -> None:
    """Raise Refusal unless one block empties the list every so many times that it grows, whatever else holds."""
    for block in blocks:
        condition = cst.ensure_type(source.parent(block), cst.If)
        if _is_certain_to_come(source, condition.test) and source.is_within(node, _outer(source, condition)):
            return
    raise NotSafe(f"{name} is used on a further condition, and would keep memory of the GPU until then")


def _is_certain_to_come(source: SourceFile, test: cst.BaseExpression) -> bool:
    """Return whether a condition holds again and again: `step % N == 0`, `step % N == 0 and step > 0`."""
    if not isinstance(test, cst.BooleanOperation):
        return True
    first, other = (test.left, test.right) if asks_remainder(test.left) else (test.right, test.left)
    if not (isinstance(other, cst.Comparison) and len(other.comparisons) == 1 and isinstance(other.left, cst.Name)):
        return False
    bound = other.comparisons[0]
    grows = isinstance(bound.operator, cst.GreaterThan) and isinstance(bound.comparator, cst.Integer)
    return grows and not isinstance(first, cst.BooleanOperation) and other.left.value in source.names_in(first)


def _outer(source: SourceFile, node: cst.CSTNode) -> cst.CSTNode:
    """Return the block in which a statement stands."""
    return next(each for each in source.around(node) if isinstance(each, cst.IndentedBlock))


def _begun_with(name: str, function: str) -> Remake:
    """Return what puts the line before the others of a block that makes a list of numbers of its tensors."""

    def begun(made: cst.CSTNode) -> cst.CSTNode:
        block = cst.ensure_type(made, cst.IndentedBlock)
        return block.with_changes(body=[numbers_of(name, function), *block.body])

    return begun
