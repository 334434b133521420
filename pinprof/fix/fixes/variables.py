"""Read a number of the GPU where it is used, if only some steps use it."""

import libcst as cst
from libcst.helpers import parse_template_expression as expression

from pinprof.fix.core.facts import Work
from pinprof.fix.core.numbers import Read
from pinprof.fix.core.read_later import HeldNumber, ReadLater
from pinprof.fix.core.rewrite import NotSafe, PlaceChange, Waits, atom, wrapped
from pinprof.fix.core.source import SourceFile, is_seldom
from pinprof.fix.core.uses import check_is_not_shown


class NumberWhereUsed(ReadLater):
    """Reads a number of a variable, `x = loss.item()`, where a condition on the number of steps uses it."""

    guide = (("a number that is used every N steps is read there", "equal"),)
    INVALID = (
        """
        for step, x in enumerate(loader):
            value = x.mean().item()  #? PIN201
            if step % 10 == 0:
                log(value)
        # becomes
        for step, x in enumerate(loader):
            value = x.mean().detach().clone()
            if step % 10 == 0:
                log(value.item())
        """,
    )
    VALID = (
        """
        for x in loader:
            value = x.mean().item()  #? PIN201
            log(value)
        # stays: value is used in each step, in line 3: use it every N steps
        """,
        """
        for step, x in enumerate(loader):
            self.value = x.mean().item()  #? PIN201
        # stays: self.value is not a variable of the function: other code may read it
        """,
    )

    def variable(self, statement: cst.BaseSmallStatement, read: Read) -> cst.BaseExpression | None:
        """Return the variable that is set to the number alone."""
        is_set = isinstance(statement, cst.Assign) and len(statement.targets) == 1 and statement.value is read.node
        return cst.ensure_type(statement, cst.Assign).targets[0].target if is_set else None

    def read_later(self, source: SourceFile, held: HeldNumber, work: Work) -> PlaceChange:
        """Return the change that reads a number where it is used. Raises Refusal."""
        del work
        name, read, uses = held.name.value, held.read, held.uses
        if len(uses.set) != 1 or uses.changed:
            raise NotSafe(f"{name} is set in several places")
        if not uses.read:
            raise NotSafe(f"nothing uses {name}; remove the line")
        for node in uses.read:
            check_is_not_shown(source, node)
            if not is_seldom(source, node, held.loop):
                raise NotSafe(f"{name} is used in each step, in line {source.line(node)}: use it every N steps")
            if source.line(node) <= source.line(held.statement):
                raise NotSafe(f"{name} is used before it is set, in line {source.line(node)}")
        kept = expression("{x}.detach().clone()", x=atom(read.tensor))
        later = "{x}.item()" if read.function == "item" else f"{read.function}({{x}})"
        rewrites = [source.rewrite(node, "read here", lambda use: wrapped(later, use)) for node in uses.read]
        waits = Waits(source.file, (read.node,), tuple(uses.read))
        return PlaceChange([source.replacement(read.node, "stays on the GPU", kept), *rewrites], waits)
