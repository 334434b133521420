"""Where a function sets, changes and reads one of its variables, and which names are Python's own."""

import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m
from libcst.metadata import Assignment, ComprehensionScope, FunctionScope
from libcst.metadata import Scope as MetadataScope

from pinprof.fix.core.rewrite import NotSafe, walk
from pinprof.fix.core.source import Scope, SourceFile


def bound_to(source: SourceFile, node: cst.BaseExpression) -> tuple[cst.BaseExpression, list[str | int]] | None:
    """Return the expression that an assignment binds to a name, and the part of it; None for other names."""
    inner: cst.CSTNode = node
    path: list[str | int] = []
    parent = source.parent(inner)
    while isinstance(parent, cst.Element):
        group = source.parent(parent)
        if not isinstance(group, cst.Tuple | cst.List):
            return None
        path.insert(0, [value is parent for value in group.elements].index(True))
        inner, parent = group, source.parent(group)
    assign = source.parent(parent) if isinstance(parent, cst.AssignTarget) else None
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    value = assign.value
    while path and isinstance(value, cst.Tuple | cst.List) and isinstance(path[0], int):
        if path[0] >= len(value.elements):
            return None
        value, path = value.elements[path[0]].value, path[1:]
    return value, path


def binds(target: cst.BaseExpression, name: str) -> bool:
    """Return whether the target of a loop binds a name."""
    return any(isinstance(node, cst.Name) and node.value == name for node in walk(target))


def uses_in(source: SourceFile, within: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """Yield the uses of a name as a variable, in the order of the source."""
    for node in walk(within):
        if isinstance(node, cst.Name) and node.value == name and _is_use(source, node):
            yield node


LOOK_INSIDE = {"locals", "globals", "vars", "exec", "eval"}
OF_FRAMES = ("f_locals", "f_globals", "__globals__", "__main__", "__dict__")
"""Names through which other code sees variables of a module; the first also those of a function."""
SHOWS = {"ic", "pp"}
"""Functions of libraries (icecream, pprint) that show the code of their arguments."""
SAME_OBJECT = m.ComparisonTarget(m.Is() | m.IsNot())
IDENTITY = m.Comparison(comparisons=[m.ZeroOrMore(), SAME_OBJECT, m.ZeroOrMore()]) | m.Call(m.Name("id"))


@dataclass
class Uses:
    """The uses of a variable in a function or a module."""

    set: list[tuple[cst.Name, cst.BaseExpression]] = field(default_factory=list)
    """Where it is bound, with the expression."""
    changed: list[cst.AugAssign] = field(default_factory=list)
    read: list[cst.Name] = field(default_factory=list)


def uses_of(source: SourceFile, at: cst.Name) -> Uses:
    """Return all uses of a variable in the function around one of them. Raises NotSafe where there may be others."""
    check_is_local(source, at)
    return local_uses(source, at)


def local_uses(source: SourceFile, at: cst.Name) -> Uses:
    """Return the uses of a variable in the function around one of them. Raises NotSafe for one bound in odd ways."""
    own_scope, uses = source.variable_scope(at), Uses()
    for node in source.nodes_named.get(at.value, ()):
        if _is_use(source, node) and source.variable_scope(node) is own_scope:
            _sort_use(source, node, at.value, uses)
    return uses


def check_is_local(source: SourceFile, at: cst.Name) -> None:
    """Raise NotSafe if anything but the function around a use of a variable may see that variable."""
    scope, own, name = source.scope(at), source.variable_scope(at), at.value
    if isinstance(scope, cst.ClassDef | cst.Lambda):
        raise NotSafe(f"{name} belongs to a class or a lambda")
    if own is None or isinstance(own, ComprehensionScope):
        raise NotSafe(f"{name} is used in a nested function or in a comprehension")
    if any(isinstance(bound, Assignment) and isinstance(bound.node, cst.Param) for bound in own[name]):
        raise NotSafe(f"{name} is an argument of its function")
    if is_set_by_others(source, name):
        raise NotSafe(f"{name} is global")
    for node in source.nodes_named.get(name, ()):
        inner = source.variable_scope(node)
        is_shared = inner is None or (inner is not own and _is_nested(inner, own) and not _is_another(inner, own, name))
        if is_shared and _is_use(source, node):
            raise NotSafe(f"{name} is used in a nested function or in a comprehension")
    check_is_not_looked_at(source, scope, name)


def _is_nested(scope: MetadataScope, outer: MetadataScope) -> bool:
    """Return whether a scope is within another one."""
    while scope is not scope.globals:
        scope = scope.parent
        if scope is outer:
            return True
    return False


def _is_another(scope: MetadataScope, outer: MetadataScope, name: str) -> bool:
    """Return whether a name in a nested function is its own variable, or that of another function around it.

    A class may look a name up in the module before it binds it, and `:=` in a comprehension binds it around that.
    """
    bound = scope[name]
    return bool(bound) and all(
        isinstance(assignment.scope, FunctionScope) and assignment.scope is not outer for assignment in bound
    )


def check_is_not_looked_at(source: SourceFile, scope: Scope, name: str) -> None:
    """Raise Refusal if something may read a variable of a scope without naming it."""
    if isinstance(scope, cst.Module) and "__all__" in source.nodes_named:
        raise NotSafe(f"__all__ may name {name}: other code may read it")
    for node in walk(scope.body if isinstance(scope, cst.FunctionDef) else scope):
        if isinstance(node, cst.Name) and node.value in LOOK_INSIDE and _looks_inside(source, node, scope):
            raise NotSafe(f"{node.value}() may look at {name}")
        if isinstance(node, cst.SimpleString) and f"@{name}" in node.value:
            raise NotSafe(f"a text in line {source.line(node)} names {name}")
    frames = OF_FRAMES if isinstance(scope, cst.Module) else OF_FRAMES[:1]
    if frame := next((word for word in frames if word in source.nodes_named), None):
        raise NotSafe(f"{frame} may look at {name}")


def _looks_inside(source: SourceFile, function: cst.Name, scope: cst.CSTNode) -> bool:
    """Return whether a function may look at the variables of a scope: `vars(args)` looks at an object alone."""
    if not _is_use(source, function) and "builtins" not in source.nodes_named:
        return False  # model.eval()
    call = source.parent(function)
    if function.value == "vars" and isinstance(call, cst.Call) and call.args and not call.args[0].star:
        return False
    return function.value != "globals" or isinstance(scope, cst.Module)


def _is_use(source: SourceFile, node: cst.Name) -> bool:
    """Return whether a name is a variable's, not that of an attribute or a keyword."""
    parent = source.parent(node)
    if isinstance(parent, cst.Attribute):
        return parent.attr is not node
    return not (isinstance(parent, cst.Arg) and parent.keyword is node)


def _sort_use(source: SourceFile, node: cst.Name, name: str, uses: Uses) -> None:
    """Add a use of a variable to `uses`, by what it does. Raises Refusal if it binds the variable in another way."""
    parent = source.parent(node)
    if isinstance(parent, cst.AugAssign) and parent.target is node:
        uses.changed.append(parent)
        return
    if isinstance(parent, cst.AnnAssign) and parent.target is node and parent.value is not None:
        uses.set.append((node, parent.value))
        return
    if isinstance(parent, cst.AssignTarget):
        assign = cst.ensure_type(source.parent(parent), cst.Assign)
        uses.set.append((node, assign.value))  # of `a = b = 0` too
        return
    bound = bound_to(source, node)
    if bound is not None:
        if bound[1]:
            raise NotSafe(f"{name} is bound to a part of something")
        uses.set.append((node, bound[0]))
        return
    if is_target(source, node):
        raise NotSafe(f"{name} is bound in another way than by an assignment")
    uses.read.append(node)


def is_set_by_others(source: SourceFile, name: str) -> bool:
    """Return whether a function declares a variable `global` or `nonlocal`."""
    return any(isinstance(node, cst.NameItem) and node.name.value == name for node in source.nodes)


def is_target(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether a name is bound by a loop, an import, `with`, `del`, `:=`, `match` or a definition."""
    inner: cst.CSTNode = node
    for outer in source.ancestors(node):
        if isinstance(outer, cst.AsName | cst.Del | cst.Import | cst.ImportFrom | cst.MatchPattern):
            return True
        if isinstance(outer, cst.FunctionDef | cst.ClassDef):
            return outer.name is inner
        if isinstance(outer, cst.For | cst.CompFor | cst.NamedExpr | cst.AssignTarget | cst.AnnAssign):
            return outer.target is inner
        if isinstance(outer, cst.BaseStatement):
            return False
        inner = outer
    return False


def check_is_builtin(source: SourceFile, name: str) -> None:
    """Raise NotSafe if a file gives a builtin such as `float` or `len` another meaning."""
    if (line := source.binding_line(name)) is not None:
        raise NotSafe(f"the program has a {name} of its own, in line {line}")


def is_builtin(source: SourceFile, name: str) -> bool:
    """Return whether a name is a builtin to which the file gives no other meaning."""
    return hasattr(builtins, name) and source.binding_line(name) is None


def check_is_not_shown(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise Refusal if the program shows the code of a read: `f"{total=}"`."""
    for outer in source.ancestors(node):
        if isinstance(outer, cst.FormattedStringExpression | cst.TemplatedStringExpression) and outer.equal is not None:
            raise NotSafe(f"line {source.line(node)} shows its own code")
        if isinstance(outer, cst.Call) and isinstance(outer.func, cst.Name) and outer.func.value in SHOWS:
            raise NotSafe(f"line {source.line(node)} shows its own code")
        if m.matches(outer, IDENTITY):
            raise NotSafe(f"line {source.line(node)} asks whether it is the same object")
        if isinstance(outer, cst.BaseStatement):
            return
