"""Numbers that each step reads and only some steps use: they are read where they are used."""

import libcst as cst
from libcst.helpers import parse_template_expression as expression

from pinprof.fix.core.facts import Work
from pinprof.fix.core.fix import LineFix
from pinprof.fix.core.numbers import Read, check_is_tensor, other_form, read_at, statement_of
from pinprof.fix.core.rewrite import Change, NotSafe, Waits, atom
from pinprof.fix.core.source import Loop, SourceFile, is_seldom, loop_of_read
from pinprof.fix.core.uses import Uses, check_is_local, check_is_not_shown, local_uses
from pinprof.fix.core.waits import check_may_come_later
from pinprof.fix.fixes.sums import LATER, SAFE_LATER
from pinprof.trace.lines import Place


class NumberWhereUsed(LineFix):
    """Reads a number of a variable, `x = loss.item()`, where a condition on the number of steps uses it."""

    rules = ("PIN201", "PIN203")
    what = LATER
    safe_if = SAFE_LATER
    guide = (
        (
            "a number that is used every N steps is read there",
            "equal",
        ),
    )
    INVALID = (
        (
            """
            for step, x in enumerate(loader):
                value = x.mean().item()  #? PIN201
                if step % 10 == 0:
                    log(value)
            """,
            """
            for step, x in enumerate(loader):
                value = x.mean().detach().clone()
                if step % 10 == 0:
                    log(value.item())
            """,
        ),
    )
    VALID = (
        (
            """
            for x in loader:
                value = x.mean().item()  #? PIN201
                log(value)
            """,
            "value is used in each step, in line 3: use it every N steps",
        ),
        (
            """
            for step, x in enumerate(loader):
                self.value = x.mean().item()  #? PIN201
            """,
            "self.value is not a variable of the function: other code may read it",
        ),
    )

    def change(self, source: SourceFile, place: Place, work: Work) -> Change:
        """Return the change that lets a number be read where it is used. Raises Refusal."""
        return _read_where_used(source, read_at(source, place.line or 0), work)


def _read_where_used(source: SourceFile, read: Read, work: Work) -> Change:
    small = statement_of(source, read)
    if not (isinstance(small, cst.Assign) and len(small.targets) == 1 and small.value is read.node):
        raise other_form(source, read)
    name = small.targets[0].target
    if not isinstance(name, cst.Name):
        raise NotSafe(f"{source.code(name)} is not a variable of the function: other code may read it")
    loop = loop_of_read(source, small, "reads the number")
    with work.condition():
        check_is_local(source, name)
    uses = local_uses(source, name)
    if len(uses.set) != 1 or uses.changed:
        raise NotSafe(f"{name.value} is set in several places")
    if not uses.read:
        raise NotSafe(f"nothing uses {name.value}; remove the line")
    _check_uses(source, small, uses, loop)
    with work.condition():
        check_is_tensor(source, read)
    with work.condition():
        check_may_come_later(source, read.node, loop)
    kept = expression("{x}.detach().clone()", x=atom(read.tensor))
    text = "{x}.item()" if read.function == "item" else f"{read.function}({{x}})"
    remade = [source.rewrite(node, "read here", lambda use: expression(text, x=_name(use))) for node in uses.read]
    waits = Waits(source.file, (read.node,), tuple(uses.read))
    return Change([source.anew(read.node, "stays on the GPU", kept), *remade], waits)


def _check_uses(source: SourceFile, small: cst.CSTNode, uses: Uses, loop: Loop) -> None:
    """Raise Refusal unless a number is used behind the line that reads it, and not in each step."""
    for node in uses.read:
        check_is_not_shown(source, node)
        if not is_seldom(source, node, loop):
            raise NotSafe(f"{node.value} is used in each step, in line {source.line(node)}: use it every N steps")
        if source.line(node) <= source.line(small):
            raise NotSafe(f"{node.value} is used before it is set, in line {source.line(node)}")


def _name(node: cst.CSTNode) -> cst.Name:
    return cst.ensure_type(node, cst.Name)
