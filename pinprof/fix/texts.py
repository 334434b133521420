"""Where a number becomes a part of a text: f-strings, `"{}".format(x)`, `"%d" % x`, `print(x)`."""

import re

import libcst as cst

from pinprof.fix.calls import method
from pinprof.fix.names import check_is_builtin
from pinprof.fix.source import SourceFile

REAL_FORMATS = "eEfFgG%"
"""How formats end that show 0 and 0.0 alike."""


def has_real_format(node: cst.CSTNode | None) -> bool:
    """Return whether an f-string shows what is in a part of it as a real number: `{x:.3f}`."""
    if not (isinstance(node, cst.FormattedStringExpression) and node.format_spec):
        return False
    last = node.format_spec[-1]
    return isinstance(last, cst.FormattedStringText) and last.value[-1] in REAL_FORMATS


def is_value_of_text(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether only the value of an expression goes into a text, by `format()`: not its type, nor its parts."""
    parent = source.parent(node)
    if isinstance(parent, cst.FormattedStringExpression):
        return parent.conversion is None and parent.expression is node
    call = source.parent(parent) if isinstance(parent, cst.Arg) and not parent.star else None
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and method(call) == "format"):
        return False
    text = call.func.value
    fields = (
        re.findall(r"\{([^{}:]*)", source.code(text).replace("{{", "")) if isinstance(text, cst.BaseString) else ["!"]
    )
    return all(re.fullmatch(r"\w*", field) for field in fields)


def is_shown(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether an expression becomes a part of a text at once, as `str()` or `format()` show it."""
    if is_value_of_text(source, node):
        return True
    parent = source.parent(node)
    if isinstance(parent, cst.Element):
        group = source.parent(parent)
        return isinstance(group, cst.Tuple) and _is_percent(source, group)
    call = source.parent(parent) if isinstance(parent, cst.Arg) and not parent.star else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "print":
        check_is_builtin(source, "print")
        return isinstance(parent, cst.Arg) and parent.keyword is None
    return _is_percent(source, node)


def _is_percent(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether something is what `"%d" % x` formats, in ways that do not tell its type."""
    around = source.parent(node)
    if not (isinstance(around, cst.BinaryOperation) and around.right is node):
        return False
    is_text = isinstance(around.operator, cst.Modulo) and isinstance(around.left, cst.BaseString)
    return is_text and not re.search(r"%[^%\w]*[\d.]*[ra]", source.code(around.left))
