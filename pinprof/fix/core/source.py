"""A source file as a syntax tree: the calls on a line, the loops around them, and what names mean."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

import libcst as cst
import libcst.matchers as m
from libcst.metadata import (
    Assignment,
    CodeRange,
    MetadataWrapper,
    PositionProvider,
    QualifiedName,
    QualifiedNameSource,
    ScopeProvider,
)
from libcst.metadata import Scope as MetadataScope

from pinprof.fix.core.rewrite import NotSafe, NotThisForm, Refusal, Rewrite, walk

Loop: TypeAlias = cst.For | cst.While
Scope: TypeAlias = cst.FunctionDef | cst.Module | cst.ClassDef | cst.Lambda


class SourceFile:
    """One file of the program. Raises Refusal if its syntax tree would not give the same text again."""

    def __init__(self, file: str, path: Path, content: bytes) -> None:
        self.file = file
        """As the trace names it."""
        self.path = path
        self.content = content
        try:
            module = cst.parse_module(content)
            same = module.bytes == content
        except (cst.ParserSyntaxError, UnicodeError, LookupError, ValueError, RecursionError) as error:
            raise NotSafe("LibCST cannot read the file as Python") from error
        if not same or b"\r" in content.replace(b"\r\n", b""):
            raise NotSafe("the layout of the file would not be kept")
        self._wrapper = MetadataWrapper(module, unsafe_skip_copy=True)  # a parsed tree has each node once
        self.module = module

    @cached_property
    def _ranges(self) -> Mapping[cst.CSTNode, CodeRange]:
        return cast("Mapping[cst.CSTNode, CodeRange]", self._wrapper.resolve(PositionProvider))

    @cached_property
    def _parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return {child: node for node in self.nodes for child in node.children}

    @cached_property
    def nodes(self) -> tuple[cst.CSTNode, ...]:
        """All nodes, in the order of the source."""
        return tuple(walk(self.module))

    @cached_property
    def every_call(self) -> tuple[cst.Call, ...]:
        """All calls, in the order of the source."""
        return tuple(node for node in self.nodes if isinstance(node, cst.Call))

    @cached_property
    def _words(self) -> frozenset[str]:
        """All names and texts of the source: neither its comments nor its layout."""
        texts = (cst.Name, cst.SimpleString, cst.FormattedStringText)
        return frozenset(node.value for node in self.nodes if isinstance(node, texts))

    def mentions(self, parts: Iterable[str]) -> str | None:
        """Return the first of some parts of words that is in a name or a text of the source."""
        return next((part for part in parts if any(part in word for word in self._words)), None)

    def line(self, node: cst.CSTNode) -> int:
        """Return the line where a node begins."""
        return self._ranges[node].start.line

    def end(self, node: cst.CSTNode) -> int:
        """Return the line where a node ends."""
        return self._ranges[node].end.line

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node around a node."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, the innermost first."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def calls(self, line: int) -> list[cst.Call]:
        """Return the calls to which a recorded line may belong: they begin there, or the name of their method does."""
        return [
            node
            for node in self.every_call
            if self.line(node) == line or (isinstance(node.func, cst.Attribute) and self.line(node.func.attr) == line)
        ]

    def qualified(self, node: cst.CSTNode) -> str | None:
        """Return what an imported name stands for, `torch.optim.AdamW`; None unless it is that alone."""
        meaning = next(iter(self.meanings(node)), None) if len(self._qualified(node)) == 1 else None
        return None if meaning and self._replaced(meaning) else meaning

    @cached_property
    def _assigned(self) -> frozenset[str]:
        """What the source may replace: attributes of modules that it sets, and its texts, for `setattr` and mocks."""
        targets = [node.target for node in self.nodes if isinstance(node, cst.AssignTarget)]
        names = {name for target in targets if isinstance(target, cst.Attribute) for name in self.meanings(target)}
        texts = (node for node in self.nodes if isinstance(node, cst.SimpleString))
        return frozenset(names | {str(text.evaluated_value) for text in texts})

    def _replaced(self, name: str) -> bool:
        """Return whether the source may replace a function of a library by its own."""
        return name in self._assigned or (name.rpartition(".")[2] in self._assigned and "setattr" in self.nodes_named)

    def meanings(self, node: cst.CSTNode) -> set[str]:
        """Return all imports that a name may stand for: two behind `try: import a as x`, `except: import b as x`."""
        return {name.name for name in self._qualified(node) if name.source is QualifiedNameSource.IMPORT}

    @cached_property
    def _scopes(self) -> Mapping[cst.CSTNode, "MetadataScope | None"]:
        return self._wrapper.resolve(ScopeProvider)

    def variable_scope(self, node: cst.CSTNode) -> "MetadataScope | None":
        """Return the scope in which a name is looked up; None for the name of an attribute or a keyword."""
        return self._scopes.get(node)

    @cached_property
    def nodes_named(self) -> Mapping[str, Sequence[cst.Name]]:
        """The nodes of each name, in the order of the source."""
        nodes: dict[str, list[cst.Name]] = {}
        for node in self.nodes:
            if isinstance(node, cst.Name):
                nodes.setdefault(node.value, []).append(node)
        return nodes

    def binding_line(self, name: str) -> int | None:
        """Return a line in which the source binds a name, in whatever scope; None if it never does."""
        for scope in {value for value in self._scopes.values() if value is not None}:
            for assignment in scope.assignments[name]:
                if isinstance(assignment, Assignment):
                    return self.line(assignment.node)
        return None

    def _qualified(self, node: cst.CSTNode) -> "set[QualifiedName]":
        scope = self.variable_scope(node)
        return set(scope.get_qualified_names_for(node)) if scope else set()

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the function, class or module in whose frame a node runs."""
        return next(outer for outer in self.ancestors(node) if isinstance(outer, Scope))

    def loop(self, node: cst.CSTNode) -> Loop | None:
        """Return the innermost loop of the same function in whose body a node is."""
        inner = node
        for outer in self.ancestors(node):
            if isinstance(outer, Scope):
                return None
            if isinstance(outer, cst.For | cst.While) and inner is outer.body:
                return outer
            inner = outer
        return None

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine:
        """Return the simple statement around a node. Raises Refusal if there is none, or its line has several."""
        for outer in self.ancestors(node):
            if isinstance(outer, cst.SimpleStatementLine):
                if len(outer.body) != 1:
                    raise NotSafe("several statements stand on the line")
                return outer
            if isinstance(outer, cst.BaseCompoundStatement):
                break
        raise NotThisForm("it is in the head of a compound statement")

    def is_within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Return whether a node is within another one."""
        return any(part is outer for part in self.ancestors(node))

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        return self.module.code_for_node(node).strip()

    def names_in(self, node: cst.CSTNode) -> list[str]:
        """Return the names within an expression, those of attributes too."""
        return [inner.value for inner in walk(node) if isinstance(inner, cst.Name)]

    def function_fits(self, function: str, line: int) -> bool:
        """Return whether a line is in a function of this name, or in the module itself."""
        if function.startswith("<"):
            return True
        return any(
            isinstance(node, cst.FunctionDef | cst.ClassDef)
            and node.name.value == function
            and self.line(node) <= line <= self.end(node)
            for node in self.nodes
        )

    def rewrite(self, node: cst.CSTNode, what: str, remake: Any, *, whole: bool = False) -> Rewrite:
        """Return a rewrite of one of its nodes; `whole` is that of `Rewrite`."""
        return Rewrite(self.file, self.line(node), node, what, remake, whole)

    def replacement(self, node: cst.CSTNode, what: str, new: "cst.CSTNode | cst.RemovalSentinel") -> Rewrite:
        """Return the rewrite that replaces a node by another one, or removes it."""
        return self.rewrite(node, what, lambda _: new, whole=True)

    def not_one(self, calls: int, what: str) -> Refusal:
        """Return the refusal for a line that should have one call of something and has none or several."""
        refusal = NotSafe if calls else NotThisForm
        return refusal(f"{calls or 'no'} call{'s' * (calls > 1)} of {what} on the line")


def statement_alone(source: SourceFile, line: int, function: str) -> cst.SimpleStatementLine:
    """Return the statement on a line that is a call of a function, and nothing else. Raises NotSafe."""
    calls = [call for call in source.calls(line) if source.qualified(call.func) == function]
    if len(calls) != 1:
        raise source.not_one(len(calls), f"{function}() by its imported name")
    statement = source.statement(calls[0])
    small = statement.body[0]
    if not (isinstance(small, cst.Expr) and small.value is calls[0]):
        raise NotSafe("the call is a part of a larger statement")
    return statement


def removal(source: SourceFile, statement: cst.SimpleStatementLine) -> Rewrite:
    """Return the rewrite that removes a statement; alone in its block, it becomes `pass`."""
    block = source.parent(statement)
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return source.replacement(statement.body[0], "removed", cst.Pass())
    if any(line.comment for line in statement.leading_lines):
        raise NotSafe("a comment stands above the line; remove both by hand")
    return source.replacement(statement, "removed", cst.RemoveFromParent())


REMAINDER = m.BinaryOperation(operator=m.Modulo())
ONE_REMAINDER = m.UnaryOperation(m.Not(), REMAINDER) | m.Comparison(REMAINDER, [m.ComparisonTarget(m.Equal())])


def comes_after(source: SourceFile, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Return whether a node is in a statement that follows another one in the same block: never before it."""
    block = source.parent(statement)
    if not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    index = next(number for number, other in enumerate(block.body) if other is statement)
    later = block.body[index + 1 :]
    return any(other is outer for outer in (node, *source.ancestors(node)) for other in later)


def is_seldom(source: SourceFile, node: cst.CSTNode, loop: Loop) -> bool:
    """Return whether a node runs outside of a loop, or in it only every N times: `if step % 100 == 0`."""
    inner = node
    for outer in source.ancestors(node):
        if outer is loop:
            return inner is not loop.body and not (isinstance(loop, cst.While) and inner is loop.test)
        if isinstance(outer, cst.If) and inner is outer.body and asks_remainder(outer.test):
            return True
        inner = outer
    return True


def asks_remainder(test: cst.BaseExpression) -> bool:
    """Return whether a condition holds only for one remainder: `step % 100 == 0`, `not step % 100`."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return asks_remainder(test.left) or asks_remainder(test.right)
    return m.matches(test, ONE_REMAINDER)
