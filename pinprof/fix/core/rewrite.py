"""Changes of a program as rewrites of nodes of its syntax tree, or the reason why there is no change."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import libcst as cst
import libcst.matchers as m
from libcst.helpers import parse_template_expression

from pinprof.prediction import Edits
from pinprof.rules.rule import NumberEffect, Rule, Saving
from pinprof.trace.lines import Place

NewNode: TypeAlias = "cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.BaseStatement]"
Remake: TypeAlias = Callable[[cst.CSTNode], NewNode]


class Refusal(Exception):  # noqa: N818  not an error: the answer to whether a change is certain
    """A change that is not made; its text says why, in a clause."""


class NotThisForm(Refusal):
    """The change is for another form of code; another change may fit."""


class NotSafe(Refusal):
    """The change is for this form of code, but something in the program, or something unknown, may make it wrong."""


@dataclass(frozen=True)
class Rewrite:
    """One node that is made anew."""

    file: str
    """As the trace names it."""
    line: int
    node: cst.CSTNode
    what: str
    """What is done to the node; the same rewrite asked for twice is done once."""
    remake: Remake = field(compare=False, repr=False)
    """Returns the new node; its argument is the node with all rewrites within it done."""
    whole: bool = False
    """Whether it drops what is within the node, so that no other rewrite may be there."""

    @property
    def key(self) -> tuple[str, int, str]:
        """Equal for rewrites that do the same to one node."""
        return self.file, id(self.node), self.what


class Waits(NamedTuple):
    """Where a change takes a wait away from a file, and where the host waits in its place."""

    file: str
    """As the trace names it."""
    gone: tuple[cst.CSTNode, ...]
    read: tuple[cst.CSTNode, ...] = ()
    """Where the host has waited: after these expressions and loops, and before these blocks and lines."""
    lost: tuple[cst.CSTNode, ...] = ()
    """Names that get another value, so that reading them no longer waits."""


class PlaceChange(NamedTuple):
    """What is done at one place."""

    rewrites: list[Rewrite]
    waits: Waits
    part: bool = False
    """Whether it does less than the finding asks for."""
    numbers: NumberEffect = "equal"


@dataclass(frozen=True)
class ProgramChange:
    """A change for a finding, at one or more of its places."""

    rule: Rule
    what: str
    """What it does, in a few words."""
    rewrites: tuple[Rewrite, ...]
    numbers: NumberEffect
    safe_if: str
    places: tuple[Place, ...]
    """The places of the finding that it mends, then the places that it changes."""
    waits: tuple[Waits, ...]
    saving: Saving | None = None
    """What the replay predicts per step; None if unknown."""
    part: bool = False
    """Whether the change does less than the finding asks for."""
    edits: Edits | None = None
    """What it does to the calls of the trace, for a replay with other changes; None if unknown."""
    doubts: tuple[str, ...] = ()
    """Why it is not certain; a change with doubts is a proposal."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it changes, in order."""
        return tuple(dict.fromkeys(rewrite.file for rewrite in self.rewrites))


@dataclass(frozen=True)
class RefusedPlace:
    """A place of a finding, or a finding without a place, that is not changed."""

    rule: Rule
    place: Place
    why: str


class _Apply(cst.CSTTransformer):
    def __init__(self, rewrites: Iterable[Rewrite]) -> None:
        super().__init__()
        self._by_node: dict[int, list[Rewrite]] = {}
        for rewrite in rewrites:
            same = self._by_node.setdefault(id(rewrite.node), [])
            if rewrite.what not in [rewrite.what for rewrite in same]:
                same.append(rewrite)

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> NewNode:  # type: ignore[override]
        new: NewNode = updated_node
        node: cst.CSTNode = updated_node
        for rewrite in self._by_node.get(id(original_node), ()):
            if isinstance(new, cst.FlattenSentinel):
                new = _rewrite_within(new, node, rewrite)
            else:
                assert isinstance(new, cst.CSTNode)
                node = new
                new = rewrite.remake(node)
        return new


def _rewrite_within(lines: "cst.FlattenSentinel[cst.BaseStatement]", node: cst.CSTNode, rewrite: Rewrite) -> NewNode:
    """Rewrite a statement to which another rewrite has added lines: of these, the one with the statement's body."""
    parts: list[cst.BaseStatement] = []
    for inner in lines.nodes:
        new = rewrite.remake(inner) if getattr(inner, "body", None) is getattr(node, "body", ()) else inner
        parts += new.nodes if isinstance(new, cst.FlattenSentinel) else [cast("cst.BaseStatement", new)]
    return cst.FlattenSentinel(parts)


def rewritten(module: cst.Module, rewrites: Iterable[Rewrite]) -> cst.Module:
    """Return a module with some rewrites done; their nodes must be those of this very tree."""
    new = module.visit(_Apply(rewrites))
    assert isinstance(new, cst.Module)
    return new


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all within it, in the order of the source."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def parts_of(node: cst.CSTNode, pattern: m.BaseMatcherNode) -> dict[str, cst.BaseExpression] | None:
    """Return the expressions that a pattern names in a node; None where the node has another form."""
    return cast("dict[str, cst.BaseExpression] | None", m.extract(node, pattern))


def wrapped(template: str, node: cst.CSTNode) -> cst.BaseExpression:
    """Put a variable into a template such as `float({x})`; parentheses around the variable go around the whole."""
    name = cst.ensure_type(node, cst.Name)
    expression = parse_template_expression(template, x=name.with_changes(lpar=[], rpar=[]))
    return expression.with_changes(lpar=name.lpar, rpar=name.rpar)


def atom(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression that can stand before a dot: in parentheses if it needs them."""
    if node.lpar or isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
