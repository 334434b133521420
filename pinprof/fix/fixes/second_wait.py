"""Remove the second of two synchronizations in a row."""

from itertools import pairwise

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.rewrite import NotSafe, PlaceChange, Waits
from pinprof.fix.core.source import SourceFile, removal, statement_alone
from pinprof.trace.lines import Place

SYNCHRONIZE = "torch.cuda.synchronize"
DEVICE = m.Arg(m.Name() | m.Integer() | m.SimpleString())
WAIT = m.SimpleStatementLine([m.Expr(m.Call(args=[m.ZeroOrMore(DEVICE)]))])


class SecondWait(LineFix):
    """Takes out the second of two synchronizations in a row."""

    rules = ("PIN210",)
    what = "one of two waits in a row is left"
    safe_if = "They wait for one device."
    guide = (("the second of two `torch.cuda.synchronize()` in a row is removed", "equal"),)
    INVALID = (
        """
        import torch
        torch.cuda.synchronize()  #? PIN210
        torch.cuda.synchronize()
        f(x)
        # becomes
        import torch
        torch.cuda.synchronize()
        f(x)
        """,
    )
    VALID = (
        """
        import torch
        torch.cuda.synchronize()  #? PIN210
        f(x)
        # stays: the source does not show what relies on the wait
        """,
        """
        import torch
        torch.cuda.synchronize(0)  #? PIN210
        torch.cuda.synchronize(1)
        # stays: the source does not show what relies on the wait
        """,
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change; another synchronization may still wait there. Raises Refusal."""
        statement = statement_alone(source, place.line or 0, SYNCHRONIZE)
        second = _second_of_two(source, statement)
        with work.condition():
            if second is None:
                raise NotSafe(
                    "the source does not show what relies on the wait: a measured time, or memory that is used again"
                )
        return PlaceChange([removal(source, second or statement)], Waits(source.file, ()), part=True)


def _second_of_two(source: SourceFile, statement: cst.SimpleStatementLine) -> cst.SimpleStatementLine | None:
    """Return the second of two synchronizations in a row, where a statement is one of them; None where it is alone."""
    block = source.parent(statement)
    for first, second in pairwise(block.body if isinstance(block, cst.IndentedBlock | cst.Module) else ()):
        if statement in {first, second} and m.matches(first, WAIT) and m.matches(second, WAIT):
            lines = [cst.ensure_type(line, cst.SimpleStatementLine) for line in (first, second)]
            if source.code(lines[0].body[0]) == source.code(lines[1].body[0]):
                return lines[1]
    return None
