"""The base class of fixes that leave a number on the GPU until the program uses it."""

from abc import abstractmethod
from typing import NamedTuple

import libcst as cst

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.numbers import Read, check_is_tensor, other_form, read_at, statement_of
from pinprof.fix.core.rewrite import NotSafe, PlaceChange
from pinprof.fix.core.source import Loop, SourceFile, is_seldom
from pinprof.fix.core.uses import Uses, check_is_local, local_uses
from pinprof.fix.core.waits import check_may_come_later
from pinprof.trace.lines import Place


class HeldNumber(NamedTuple):
    """A number that each step of a loop reads, and the variable that gets it."""

    place: Place
    read: Read
    statement: cst.BaseSmallStatement
    name: cst.Name
    loop: Loop
    uses: Uses
    """All uses of the variable in its function."""


class ReadLater(LineFix):
    """Leaves a number on the GPU, and reads it where the program uses the variable that gets it."""

    rules = ("PIN201", "PIN203")
    what = "the number stays on the GPU until it is used"
    safe_if = (
        "Nothing else relies on the removed wait. The program reads the same Python number later; the GPU sums in "
        "float64, as Python does. A list keeps 512 bytes of GPU memory per number until it is read."
    )

    @abstractmethod
    def variable(self, statement: cst.BaseSmallStatement, read: Read) -> cst.BaseExpression | None:
        """Return what gets the number in a statement; None where this fix is not for it."""

    @abstractmethod
    def read_later(self, source: SourceFile, held: HeldNumber, work: Work) -> PlaceChange:
        """Return the change. Raises Refusal."""

    def change(self, source: SourceFile, place: Place, work: Work) -> PlaceChange:
        """Return the change that reads a number later. Raises Refusal."""
        read = read_at(source, place.line or 0)
        statement = statement_of(source, read)
        name = self.variable(statement, read)
        if name is None:
            raise other_form(source, read)
        if not isinstance(name, cst.Name):
            raise NotSafe(f"{source.code(name)} is not a variable of the function: other code may read it")
        loop = source.loop(statement)
        if loop is None:
            raise NotSafe(f"no loop of the same function sets {name.value}")
        if is_seldom(source, statement, loop):
            raise NotSafe("the program already reads it only every few steps")
        with work.condition():
            check_is_local(source, name)
        held = HeldNumber(place, read, statement, name, loop, local_uses(source, name))
        change = self.read_later(source, held, work)
        with work.condition():
            check_is_tensor(source, read)
        with work.condition():
            check_may_come_later(source, read.node, loop)
        return change
