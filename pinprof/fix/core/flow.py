"""Code in the order in which it runs: what holds behind it, of what held before it.

A state is a number, the larger the worse; None where code is never reached. Where ways of the program meet, the worse
one holds.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

import libcst as cst

from pinprof.fix.core.rewrite import walk
from pinprof.fix.core.source import SourceFile

State: TypeAlias = int | None
ROUNDS = 3
"""A state of a loop gets worse at most so often as there are states."""


def worst(*states: State) -> State:
    """Return what holds where several ways of a program meet."""
    return max((each for each in states if each is not None), default=None)


class Watch(Protocol):
    """What is asked of each part of the code that runs."""

    def before(self, node: cst.CSTNode, state: State) -> State:
        """Return what holds at the beginning of a statement or a block."""

    def behind(self, source: SourceFile, node: cst.CSTNode, state: State) -> State:
        """Return what holds when an expression or a loop has run, all of its parts before it."""

    def entered(self, source: SourceFile, node: cst.BaseExpression, state: State) -> State:
        """Return what holds when a `with` has begun, or a loop has asked for one more element."""

    def left(self, source: SourceFile, node: cst.BaseExpression, state: State) -> State:
        """Return what holds when a `with` has ended."""


class Flow:
    """One run through the body of a function or a module; a generator's goes on behind `yield` with `resumed`."""

    def __init__(self, watch: Watch, source: SourceFile, resumed: State = None) -> None:
        self._watch = watch
        self._source = source
        self._resumed = resumed
        self._out: list[list[State]] = [[], [], [], []]
        """The states at `return`, `break`, `continue`, and at whatever a `try` may have to catch."""

    def through(self, body: cst.CSTNode, state: State) -> State:
        """Return what holds when a body has ended, in whatever way."""
        behind = self._block(body, state) if isinstance(body, cst.BaseSuite | cst.Module) else self._value(body, state)
        return worst(behind, *self._out[0])

    def _block(self, node: cst.CSTNode, state: State) -> State:
        state = self._watch.before(node, state)
        for each in getattr(node, "body", ()):
            state = self._statement(each, state)
        return state

    def _statement(self, node: cst.CSTNode, state: State) -> State:
        if state is None and self._resumed is None:
            return None
        state = self._watch.before(node, state)
        self._out[3].append(state)
        match node:
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                state = self._block(node, state)
            case cst.If():
                state = self._if(node, state)
            case cst.For() | cst.While():
                state = self._watch.behind(self._source, node, self._loop(node, state))
            case cst.With():
                state = self._with(node, state)
            case cst.Try() | cst.TryStar():
                state = self._try(node, state)
            case cst.Match():
                state = self._match(node, state)
            case cst.ClassDef():
                state = self._block(node.body, state)
            case cst.FunctionDef():  # its body runs where it is called
                given = (each.default for each in walk(node.params) if isinstance(each, cst.Param))
                state = self._values([each for each in given if each], state)
            case _:
                state = self._small(node, state)
        self._out[3].append(state)
        return state

    def _small(self, node: cst.CSTNode, state: State) -> State:
        match node:
            case cst.Assign():
                return self._values((node.value, *(each.target for each in node.targets)), state)
            case cst.AnnAssign():
                return self._values([each for each in (node.value, node.target) if each], state)
            case cst.Break() | cst.Continue():
                self._out[1 if isinstance(node, cst.Break) else 2].append(state)
                return None
            case cst.Return() | cst.Raise():
                self._out[0].append(self._values(node.children, state))
                return None
            case cst.Import() | cst.ImportFrom() | cst.Global() | cst.Nonlocal():
                return state
        return self._values(node.children, state)

    def _if(self, node: cst.If, state: State) -> State:
        state = self._value(node.test, state)
        taken = self._block(node.body, state)
        if isinstance(node.orelse, cst.If):
            return worst(taken, self._statement(node.orelse, state))
        if node.orelse is not None:
            return worst(taken, self._block(node.orelse.body, state))
        # the program ran on a GPU: `if torch.cuda.is_available():`
        return taken if "cuda" in self._source.code(node.test) and taken is not None else worst(taken, state)

    def _match(self, node: cst.Match, state: State) -> State:
        state = self._value(node.subject, state)
        ways = []
        for case in node.cases:
            state = self._value(case.guard, state) if case.guard else state
            ways.append(self._block(case.body, state))
        return worst(state, *ways)

    def _loop(self, node: cst.For | cst.While, state: State) -> State:
        outer, kept = self._out, [*self._out]
        if isinstance(node, cst.For):
            state = self._value(node.iter, state)
        head = state
        for _ in range(ROUNDS):
            self._out = [kept[0], [], [], kept[3]]
            head = worst(state, head)
            inside = self._head(node, head)
            head = worst(head, self._block(node.body, inside), *self._out[2])
        ended = self._head(node, head)
        if isinstance(node, cst.While) and self._source.code(node.test) in {"True", "1"}:
            ended = None
        breaks, self._out = self._out[1], outer
        return worst(self._block(node.orelse.body, ended) if node.orelse else ended, *breaks)

    def _head(self, node: cst.For | cst.While, state: State) -> State:
        if isinstance(node, cst.While):
            return self._value(node.test, state)
        return self._value(node.target, self._watch.entered(self._source, node.iter, state))

    def _with(self, node: cst.With, state: State) -> State:
        for each in node.items:
            state = self._watch.entered(self._source, each.item, self._value(each.item, state))
        outer, self._out = self._out, [[], [], [], self._out[3]]
        behind = self._block(node.body, state)
        ways, self._out = self._out, outer
        for each in reversed(node.items):
            behind = self._watch.left(self._source, each.item, behind)
        for kind in range(3):
            for way in ways[kind]:
                for each in reversed(node.items):
                    way = self._watch.left(self._source, each.item, way)  # noqa: PLW2901
                self._out[kind].append(way)
        return behind

    def _try(self, node: cst.Try | cst.TryStar, state: State) -> State:
        outer, self._out = self._out, [[], [], [], [state]]
        behind = self._block(node.body, state)
        failed = worst(*self._out[3])
        handled = [self._block(each.body, failed) for each in node.handlers]
        behind = worst(self._block(node.orelse.body, behind) if node.orelse else behind, *handled)
        ways, self._out = self._out, outer
        outer[3].append(worst(*ways[3]))
        if node.finalbody is not None:
            behind = self._block(node.finalbody.body, behind)
        for kind in range(3):
            for way in ways[kind]:
                outer[kind].append(self._block(node.finalbody.body, way) if node.finalbody else way)
        return behind

    def _values(self, nodes: Sequence[cst.CSTNode], state: State) -> State:
        for each in nodes:
            state = self._value(each, state)
        return state

    def _value(self, node: cst.CSTNode, state: State) -> State:
        is_over = state is None and self._resumed is None
        if is_over or isinstance(node, cst.BaseParenthesizableWhitespace):
            return state
        match node:
            case cst.IfExp():
                state = self._value(node.test, state)
                state = worst(self._value(node.body, state), self._value(node.orelse, state))
            case cst.BooleanOperation():
                state = self._value(node.left, state)
                state = worst(state, self._value(node.right, state))
            case cst.Lambda():
                state = worst(state, self._value(node.body, state))  # it may run here
            case cst.BaseComp():
                state = self._comprehension(node, state)
            case cst.Yield():
                self._out[0].append(self._values(node.children, state))
                state = self._resumed
            case _:
                state = self._values(node.children, state)
        return self._watch.behind(self._source, node, state)

    def _comprehension(self, node: cst.BaseComp, state: State) -> State:
        clause = node.for_in
        state = self._value(clause.iter, state)
        once = self._watch.entered(self._source, clause.iter, state)
        inner = [each for each in (clause.inner_for_in,) if each]
        parts = [clause.target, *(each.test for each in clause.ifs)]
        while inner:
            nested = inner.pop()
            parts += [nested.iter, nested.target, *(each.test for each in nested.ifs)]
            inner = [each for each in (nested.inner_for_in,) if each]
        made = [node.key, node.value] if isinstance(node, cst.DictComp) else [getattr(node, "elt")]  # noqa: B009
        for _ in range(2):
            once = worst(once, self._values([*parts, *made], once))
        return worst(state, once)


def yields(body: cst.CSTNode) -> bool:
    """Return whether a function's own code yields."""
    waiting: list[cst.CSTNode] = [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Yield):
            return True
        waiting += [each for each in node.children if not isinstance(each, cst.FunctionDef | cst.Lambda)]
    return False


def names_of(node: cst.CSTNode) -> Iterable[str]:
    """Yield the names within a node, those of attributes too."""
    return (each.value for each in walk(node) if isinstance(each, cst.Name))
