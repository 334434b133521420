"""Refuse changes that spoil a measured time: after a removed wait, the program must wait again before it reads a clock.

The search follows the statements of the function from the removed wait on, to the first that waits or reads a clock. If
the function may end before that, the code that calls it must read no clock. A clock that other code may read at any
time needs every wait.
"""

from collections.abc import Collection, Iterable, Sequence

import libcst as cst

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.clock_names import AS_TEXT, ClockNames
from pinprof.fix.core.facts import Work
from pinprof.fix.core.numbers import as_read, is_real
from pinprof.fix.core.rewrite import NotSafe, Waits, walk
from pinprof.fix.core.source import Scope, SourceFile
from pinprof.trace.lines import Place

SYNCHRONIZE = {"torch.cuda.synchronize", "torch.accelerator.synchronize"}
READING = {"item", "tolist", "cpu", "numpy", "float", "int", "bool", "to", "cuda", "synchronize", "nonzero", "print"}
"""Calls that wait for the GPU where the trace has a wait in their line."""
MAYBE = (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.BaseComp, cst.FunctionDef, cst.ClassDef)
"""Nodes that may skip a part of themselves, or run later."""


def waits_at(source: SourceFile, place: Place) -> Waits:
    """Return the waits of a change that removes those of all calls in a line."""
    return Waits(source.file, tuple(source.calls(place.line or 0)))


def check_clocks(waits: Iterable[Waits], work: Work) -> None:
    """Raise NotSafe if, with all changes made so far, a clock may be read before the GPU has done its work."""
    new = [wait for wait in waits if wait.gone]
    together = [*work.waits, *new]
    removed = {id(node) for waits in together for statement in waits.gone for node in walk(statement)}
    names_of = work.clock_names
    for wait in together if new else ():
        source = work.files.named(wait.file)
        if source.path not in names_of:
            names_of[source.path] = ClockNames(source.path, work.files.folder)
        if names_of[source.path].has_clock:
            _Search(source, wait, removed, work.facts.waiting, names_of[source.path]).check()


class _Search:
    """A search from a removed wait on: a clock refuses the change, another wait ends the search."""

    def __init__(
        self,
        source: SourceFile,
        waits: Waits,
        removed: Collection[int],
        waiting: Collection[tuple[str, int]],
        clocks: ClockNames,
    ) -> None:
        self._source, self._removed, self._waiting, self._clocks = source, removed, waiting, clocks
        self._start = waits.gone[0]
        self._read, self._lost = ({id(node) for node in nodes} for nodes in waits[2:4])
        self._is_lost = False
        """Whether a variable has another value than the one whose read waits."""
        self._escapes = False
        """Whether a step may end before the host has waited."""
        self._ends = False
        """Whether the function may end before the host has waited."""

    def check(self) -> None:
        """Raise NotSafe where a clock may be read too early."""
        scope = self._source.scope(self._start)
        name = scope.name.value if isinstance(scope, cst.FunctionDef) else ""
        running = self._clocks.running(name) if name else set[str]()
        self._refuse(self._clocks.clock_handed_on(running))
        is_plain = isinstance(scope, cst.Module | cst.FunctionDef)
        if not is_plain or (name and any(isinstance(node, cst.Yield) for node in walk(scope))):
            raise NotSafe("the program reads a clock, and the wait is not in a plain function")
        if not self._waits_after() or self._ends:
            self._refuse(self._clocks.clock_of_callers(running) if name else self._clocks.clock_of_importing())

    def _refuse(self, place: str | None) -> None:
        if place is not None:
            raise NotSafe(f"{place or 'the program'} reads a clock, which needs the wait")

    def _waits_after(self) -> bool:
        """Return whether the host always waits after the start, in the same function."""
        inner: cst.CSTNode = self._start
        for node in self._source.ancestors(self._start):
            match node:
                case cst.Module() | cst.IndentedBlock() if self._run(_after(node.body, inner)):
                    return True
                case cst.Module() | cst.FunctionDef():
                    return False
                case cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                    self._value(node)
                    self._run_handlers(node)
                case cst.For() | cst.While():
                    self._escapes = False  # to the next step, or after the loop: both are searched from here on
                    self._run([node])
                    if id(node) in self._read:
                        return True
                case cst.With() | cst.Try() | cst.TryStar():
                    self._leave(node)
                case cst.If() if inner is node.test and self._branches(node):
                    return True
            inner = node
        return False

    def _run_handlers(self, line: cst.CSTNode) -> None:
        """Search what runs when an error skips the other waits of a block."""
        for node in self._source.ancestors(line):
            if isinstance(node, Scope):
                return
            if isinstance(node, cst.Try | cst.TryStar):
                for handler in node.handlers:
                    self._run(handler.body.body)
                    self._escapes = False

    def _leave(self, node: cst.With | cst.Try | cst.TryStar) -> bool:
        """Search what runs when a block ends; return False."""
        heads, blocks = _parts(node)
        for head in heads:
            self._value(head)
        for block in blocks[1:]:
            self._run(block.body)
        return False

    def _run(self, statements: Iterable[cst.CSTNode]) -> bool:
        """Return whether the host has waited after some statements, or never gets past them."""
        return any(self._statement(statement) for statement in statements)

    def _statement(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            return False  # it runs where it is named
        if isinstance(node, cst.BaseCompoundStatement):
            return self._compound(node)
        if self._value(node):
            return True
        parts = (node, *node.children)
        self._escapes = self._escapes or any(isinstance(part, cst.Break | cst.Continue) for part in parts)
        is_end = any(isinstance(part, cst.Return | cst.Raise) for part in parts)
        self._ends = self._ends or is_end
        return is_end

    def _compound(self, node: cst.BaseCompoundStatement) -> bool:
        """Return whether the host has waited after a compound statement, whichever of its blocks run."""
        match node:
            case cst.If():
                return self._value(node.test) or self._branches(node)
            case cst.With():
                return any(map(self._value, node.items)) or self._run(node.body.body) or self._leave(node)
        escapes = self._escapes
        heads, blocks = _parts(node)
        for head in heads:
            self._value(head)
        for block in blocks:
            self._run(block.body)
        if isinstance(node, cst.For | cst.While):
            self._escapes = escapes  # a way out of the loop leads to what is searched next
        return id(node) in self._read

    def _branches(self, node: cst.If) -> bool:
        """Return whether the host has waited after an `if`, whichever of its branches is taken."""
        body_waits = id(node.body) in self._read or self._run(node.body.body)
        match node.orelse:
            case cst.If():
                return self._compound(node.orelse) and body_waits
            case cst.Else():
                return self._run(node.orelse.body.body) and body_waits
        return body_waits and "cuda" in self._source.code(node.test)  # the program ran on a GPU

    def _value(self, node: cst.CSTNode) -> bool:
        """Return whether the host has waited in a part of a statement. Raises NotSafe if that reads a clock."""
        if isinstance(node, MAYBE):
            for part in node.children:
                self._value(part)
            return False
        if any(self._value(part) for part in node.children):
            return True
        if self._reads_clock(node):
            self._refuse(f"line {self._source.line(node)}")
        self._is_lost = self._is_lost or id(node) in self._lost
        is_read = id(node) in self._read and not self._is_lost
        return not self._escapes and (is_read or self._drains(node))

    def _reads_clock(self, node: cst.CSTNode) -> bool:
        around = self._source.parent(node)
        if isinstance(node, cst.Call):
            is_text = isinstance(around, cst.Attribute) and around.attr.value in AS_TEXT
            return not is_text and self._clocks.is_clock(self._source.names_in(node.func))
        is_word = isinstance(around, cst.Arg) and around.keyword is node
        return isinstance(node, cst.Name) and node.value in self._clocks.reads and not is_word

    def _drains(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.Call) or id(node) in self._removed:
            return False
        if self._source.qualified(node.func) in SYNCHRONIZE:
            return True
        lines = {self._source.line(node.func.attr if isinstance(node.func, cst.Attribute) else node)}
        lines.add(self._source.line(node))
        if last_name(node) in READING and any((self._source.file, line) in self._waiting for line in lines):
            return True
        read = as_read(node)
        return read is not None and is_real(self._source, read.tensor, node)


def _after(body: Sequence[cst.CSTNode], inner: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """Return the statements of a block that follow one of them."""
    return body[next(index for index, statement in enumerate(body) if statement is inner) + 1 :]


def _parts(node: cst.CSTNode) -> tuple[list[cst.CSTNode], list[cst.BaseSuite]]:
    """Return what a compound statement evaluates itself, and all its blocks, those of its handlers too."""
    heads: list[cst.CSTNode] = []
    blocks: list[cst.BaseSuite] = []
    for part in node.children:
        match part:
            case cst.BaseSuite():
                blocks.append(part)
            case (
                cst.Else() | cst.Finally() | cst.ExceptHandler() | cst.ExceptStarHandler() | cst.MatchCase() | cst.If()
            ):
                more_heads, more_blocks = _parts(part)
                heads += more_heads
                blocks += more_blocks
            case _:
                heads.append(part)
    return heads, blocks
