"""Classes of meters: whether all that their `update()` does is arithmetic, and which attributes it makes of a value."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from pinprof.fix.names import Uses
from pinprof.fix.rewrite import NotSafe, NotThisForm, walk
from pinprof.fix.source import SourceFile

HARMLESS = {"__init__", "__str__", "__repr__"}
"""Special methods that nobody calls who only updates a meter and takes its attributes."""
ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
BEGINNING = ("__init__", "reset")
PLAIN = (cst.Name, cst.BaseString, cst.BaseNumber)
ZEROS = {"0", "0.0", "0."}
GROWING = (cst.AddAssign, cst.SubtractAssign)


class Meter(NamedTuple):
    """What a class of meters does with a value that it is updated with."""

    value: str
    """The parameter of `update()` for it."""
    others: tuple[str, ...]
    """Its other parameters."""
    made: frozenset[str]
    """The attributes that are made of values."""
    attributes: frozenset[str]
    """All attributes that are numbers."""
    divides: bool


def meter_of(source: SourceFile, uses: Uses) -> Meter:
    """Return the class of meters of which a variable always is an instance. Raises Refusal."""
    calls = [value for _, value in uses.set]
    names = {value.func.value for value in calls if isinstance(value, cst.Call) and isinstance(value.func, cst.Name)}
    is_call = all(isinstance(value, cst.Call) and isinstance(value.func, cst.Name) for value in calls)
    found = [each for each in source.nodes if isinstance(each, cst.ClassDef) and each.name.value in names]
    if not is_call or len(names) != 1 or len(found) != 1 or source.parent(found[0]) is not source.module:
        raise NotThisForm("the number does not go to a meter whose class the file shows")
    made = found[0]
    _check_class(source, made)
    methods = {each.name.value: each for each in made.body.body if isinstance(each, cst.FunctionDef)}
    if "update" not in methods:
        raise NotThisForm("the number does not go to a meter whose class has an update() of its own")
    started = frozenset(name for each in BEGINNING if each in methods for name in _starts(source, methods[each]))
    return _meter(source, methods["update"], started)


def _check_class(source: SourceFile, made: cst.ClassDef) -> None:
    """Raise Refusal for a class that may do more than its methods show, or that is more than a class."""
    name = made.name.value
    if made.decorators or made.keywords or any(source.code(base.value) != "object" for base in made.bases):
        raise NotSafe(f"{name} is made of another class, or changed by a decorator")
    for each in made.body.body:
        if isinstance(each, cst.FunctionDef):
            is_special = each.name.value.startswith("__") and each.name.value not in HARMLESS
            if is_special or each.decorators:
                raise NotSafe(f"{name}.{each.name.value}() may look at what is set")
        elif not _is_text(each):
            raise NotSafe(f"{name} has attributes of its class, in line {source.line(each)}")
    for node in source.nodes:
        if isinstance(node, cst.Name) and node.value == name and node is not made.name:
            parent = source.parent(node)
            if not (isinstance(parent, cst.Call) and parent.func is node):
                raise NotSafe(f"{name} is used otherwise than to make a meter, in line {source.line(node)}")


def _is_text(node: cst.CSTNode) -> bool:
    """Return whether a statement is a text alone, as a docstring, or nothing."""
    small = node.body if isinstance(node, cst.SimpleStatementLine) else ()
    return bool(small) and all(
        isinstance(each, cst.Pass) or (isinstance(each, cst.Expr) and isinstance(each.value, cst.BaseString))
        for each in small
    )


def _starts(source: SourceFile, method: cst.FunctionDef) -> Iterator[str]:
    """Yield the attributes that a method sets to 0. Raises Refusal where it does more than to set attributes."""
    for small in _statements(source, method):
        if isinstance(small, cst.Expr):
            if isinstance(small.value, cst.BaseString) or source.code(small.value) == "self.reset()":
                continue
        elif isinstance(small, cst.Assign):
            pairs = [pair for each in small.targets for pair in _assigned(each.target, small.value)]
            if all(_attribute(target) and isinstance(value, PLAIN) for target, value in pairs):
                yield from (str(_attribute(target)) for target, value in pairs if source.code(value) in ZEROS)
                continue
        raise NotSafe(f"{method.name.value}() of the meter does more than to set numbers, in line {source.line(small)}")


def _assigned(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Return what an assignment sets, and to what: `a, b = 0, 0` sets two."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        return [(one.value, other.value) for one, other in zip(target.elements, value.elements, strict=True)]
    return [(target, value)]


def _meter(source: SourceFile, update: cst.FunctionDef, started: frozenset[str]) -> Meter:
    """Return what `update()` makes of its value. Raises Refusal where it does more than arithmetic."""
    value, *others = _parameters(source, update)
    lines = [(small, *_set_by(source, small)) for small in _statements(source, update) if not _is_said(small)]
    made: set[str] = set()
    for _ in lines:  # until nothing more is made of a value
        made |= {target for _, target, given in lines if _is_of_value(given, value, made)}
    for small, target, given in lines:
        if isinstance(small, cst.AugAssign) and target not in started:
            raise NotSafe(f"{target} of the meter does not begin at 0")
        if isinstance(given, cst.Name) and sum(other == target for _, other, _ in lines) > 1:
            raise NotSafe(f"update() of the meter sets {target} twice")
        if isinstance(given, cst.Attribute):
            raise NotSafe(f"update() of the meter gives a sum two names, in line {source.line(small)}")
        _check_is_arithmetic(source, given, (value, *others), frozenset(started | made), made)
    divides = any(isinstance(each, cst.Divide) for _, _, given in lines for each in walk(given))
    return Meter(value, tuple(others), frozenset(made), frozenset(started | made), divides)


def _parameters(source: SourceFile, update: cst.FunctionDef) -> list[str]:
    """Return the parameters of `update()`, without the meter itself. Raises Refusal unless it has one or two."""
    params = update.params
    has_more = (
        params.star_kwarg or params.kwonly_params or params.posonly_params or isinstance(params.star_arg, cst.Param)
    )
    weights = [source.code(each.default) for each in params.params if each.default is not None]
    first, *given = (each.name.value for each in params.params)
    if has_more or first != "self" or len(given) not in {1, 2} or any(weight != "1" for weight in weights):
        raise NotSafe("update() of the meter has other arguments than a value and its weight")
    return given


def _statements(source: SourceFile, method: cst.FunctionDef) -> Iterator[cst.BaseSmallStatement]:
    """Yield the statements of a method. Raises Refusal where it has others than simple ones."""
    body = method.body.body if isinstance(method.body, cst.IndentedBlock) else ()
    for line in body:
        if not isinstance(line, cst.SimpleStatementLine):
            raise NotSafe(f"{method.name.value}() of the meter decides, in line {source.line(line)}")
        yield from (each for each in line.body if not isinstance(each, cst.Pass))


def _attribute(node: cst.BaseExpression) -> str | None:
    """Return the name of an attribute of the meter itself: `self.sum`."""
    is_own = isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    return node.attr.value if isinstance(node, cst.Attribute) and is_own else None


def _is_said(small: cst.BaseSmallStatement) -> bool:
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)


def _set_by(source: SourceFile, small: cst.BaseSmallStatement) -> tuple[str, cst.BaseExpression]:
    """Return the attribute that a statement sets, and of what. Raises Refusal for what does something else."""
    target = None
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = _attribute(small.targets[0].target)
    elif isinstance(small, cst.AugAssign) and isinstance(small.operator, GROWING):
        target = _attribute(small.target)
    if target is None or not isinstance(small, cst.Assign | cst.AugAssign):
        raise NotSafe(f"update() of the meter does more than arithmetic, in line {source.line(small)}")
    return target, small.value


def _is_of_value(node: cst.CSTNode, value: str, made: Collection[str]) -> bool:
    """Return whether an expression has the value in it, or an attribute that is made of values."""
    return any(
        (isinstance(each, cst.Name) and each.value == value)
        or (isinstance(each, cst.Attribute) and _attribute(each) in made)
        for each in walk(node)
    )


def _check_is_arithmetic(
    source: SourceFile, node: cst.BaseExpression, params: Sequence[str], numbers: Collection[str], made: Collection[str]
) -> None:
    """Raise Refusal unless an expression is arithmetic with arguments, attributes and constants."""
    if isinstance(node, cst.IfExp):
        if _is_of_value(node.test, params[0], made):
            raise NotSafe(f"update() of the meter decides by its value, in line {source.line(node)}")
        if isinstance(node.body, cst.Attribute) or isinstance(node.orelse, cst.Attribute):
            raise NotSafe(f"update() of the meter gives a sum two names, in line {source.line(node)}")
        parts = [node.test, node.body, node.orelse]
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, ARITHMETIC):
        parts = [node.left, node.right]
        if isinstance(node.operator, cst.Divide) and _is_of_value(node.right, params[0], made):
            raise NotSafe(f"update() of the meter divides by its value, in line {source.line(node)}")
    elif _is_operand(node, params, numbers):
        parts = []
    else:
        raise NotSafe(f"update() of the meter does more than arithmetic, in line {source.line(node)}")
    for each in parts:
        _check_is_arithmetic(source, each, params, numbers, made)


def _is_operand(node: cst.BaseExpression, params: Sequence[str], numbers: Collection[str]) -> bool:
    is_param = isinstance(node, cst.Name) and node.value in params
    return is_param or isinstance(node, cst.Integer | cst.Float) or _attribute(node) in numbers
