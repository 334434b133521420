"""What a change of a program is made of: rewrites of nodes of its syntax tree, or the reason why there is none."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import libcst as cst
import libcst.matchers as m
from libcst.helpers import parse_template_expression

from pinprof.prediction import Edits
from pinprof.rules.rule import Numbers, Rule, Saving
from pinprof.trace.lines import Place

NewNode: TypeAlias = "cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.BaseStatement]"
Remake: TypeAlias = Callable[[cst.CSTNode], NewNode]


class Refusal(Exception):  # noqa: N818  not an error: the answer to whether a change is certain
    """A change that is not made; its text says why, in a clause."""


class NotThisForm(Refusal):
    """The program does something else there than what the change is for: another change may be for it."""


class NotSafe(Refusal):
    """The change is for this form, and something in the program, or unknown, may make it wrong."""


@dataclass(frozen=True)
class Rewrite:
    """One node that is made anew."""

    file: str
    """As the trace names it."""
    line: int
    node: cst.CSTNode
    what: str
    """What is done to it: the same twice is done once."""
    remake: Remake = field(compare=False, repr=False)
    """Gets the node with all changes within it."""
    whole: bool = False
    """Whether it looks at nothing within the node, so that no other change may be there."""

    @property
    def key(self) -> tuple[str, int, str]:
        """What distinguishes it from others: the same twice is done once."""
        return self.file, id(self.node), self.what


class Waits(NamedTuple):
    """Where a change takes a wait away from a file, and where the host waits in its place."""

    file: str
    """As the trace names it."""
    gone: tuple[cst.CSTNode, ...]
    read: tuple[cst.CSTNode, ...] = ()
    """Expressions and loops behind which the host has waited, blocks and lines before which it has."""
    lost: tuple[cst.CSTNode, ...] = ()
    """Names that get another value, so that what reads them does not wait."""


class PlaceChange(NamedTuple):
    """What is done at one place."""

    rewrites: list[Rewrite]
    waits: Waits
    part: bool = False
    """Whether it does less than the finding asks for."""
    numbers: Numbers = "equal"


@dataclass(frozen=True)
class Mend:
    """A change for a finding, at one or more of its places."""

    rule: Rule
    what: str
    """What it does, in a few words."""
    rewrites: tuple[Rewrite, ...]
    numbers: Numbers
    safe_if: str
    places: tuple[Place, ...]
    """Those of the finding that it is for, and those that it changes."""
    waits: tuple[Waits, ...]
    saving: Saving | None = None
    """What the replay predicts per step; None where nobody can tell."""
    part: bool = False
    """Whether the change does less than the finding asks for."""
    edits: Edits | None = None
    """What becomes of the calls of the trace, for a replay with other changes; None where nobody can tell."""
    doubts: tuple[str, ...] = ()
    """Why it is not certain; without any, it is. A change with doubts is a proposal."""

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
        self._of: dict[int, list[Rewrite]] = {}
        for rewrite in rewrites:
            same = self._of.setdefault(id(rewrite.node), [])
            if rewrite.what not in [rewrite.what for rewrite in same]:
                same.append(rewrite)

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> NewNode:  # type: ignore[override]
        made: NewNode = updated_node
        node: cst.CSTNode = updated_node
        for rewrite in self._of.get(id(original_node), ()):
            if isinstance(made, cst.FlattenSentinel):
                made = _again(made, node, rewrite)
            else:
                assert isinstance(made, cst.CSTNode)
                node = made
                made = rewrite.remake(node)
        return made


def _again(made: "cst.FlattenSentinel[cst.BaseStatement]", node: cst.CSTNode, rewrite: Rewrite) -> NewNode:
    """Return what a rewrite makes of a statement to which another has added lines: the one that has its body."""
    parts: list[cst.BaseStatement] = []
    for inner in made.nodes:
        new = rewrite.remake(inner) if getattr(inner, "body", None) is getattr(node, "body", ()) else inner
        parts += new.nodes if isinstance(new, cst.FlattenSentinel) else [cast("cst.BaseStatement", new)]
    return cst.FlattenSentinel(parts)


def rewritten(module: cst.Module, rewrites: Iterable[Rewrite]) -> cst.Module:
    """Return a module with the nodes of some rewrites made anew; they are those of this very tree."""
    made = module.visit(_Apply(rewrites))
    assert isinstance(made, cst.Module)
    return made


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


def made_of(template: str, node: cst.CSTNode) -> cst.BaseExpression:
    """Return an expression made of a variable, as `float({x})`, in the parentheses that stand around the variable."""
    name = cst.ensure_type(node, cst.Name)
    made = parse_template_expression(template, x=name.with_changes(lpar=[], rpar=[]))
    return made.with_changes(lpar=name.lpar, rpar=name.rpar)


def atom(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression that can stand before a dot: in brackets, where it needs them."""
    if node.lpar or isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
