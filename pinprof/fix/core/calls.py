"""Calls: read, add and remove arguments in the layout of the others; and recognize copies of tensors to the GPU."""

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from pinprof.fix.core.rewrite import NotSafe, Remake
from pinprof.fix.core.source import SourceFile


def method(call: cst.Call) -> str | None:
    """Return the name of the method that is called."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def last_name(call: cst.Call) -> str:
    """Return the last name of what is called: `item` of `x.item()`."""
    return method(call) or (call.func.value if isinstance(call.func, cst.Name) else "")


def argument(call: cst.Call, name: str) -> cst.Arg | None:
    """Return a keyword argument of a call."""
    return next((arg for arg in call.args if arg.keyword and arg.keyword.value == name), None)


def check_plain(call: cst.Call, most: int, what: str) -> None:
    """Raise Refusal for a call whose arguments the source does not show, or with more positional ones than `most`."""
    if any(arg.star for arg in call.args):
        raise NotSafe(f"the arguments of {what} come from a list or a dict; set it there")
    if sum(arg.keyword is None for arg in call.args) > most:
        raise NotSafe(f"{what} has positional arguments, and one of them may already set this")


def check_has_no_comments(code: str, by_hand: str) -> None:
    """Raise Refusal for a call that would lose comments; `by_hand` says what the user can do."""
    if "#" in code:
        raise NotSafe(f"comments stand in the call; {by_hand} by hand")


def with_argument(name: str, value: str) -> Remake:
    """Return a function that sets a keyword argument of a call."""

    def remake(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        present = argument(call, name)
        new = cst.parse_expression(value)
        if present is not None:
            return call.with_deep_changes(present, value=new)
        return call.with_changes(args=_appended(call, name, new))

    return remake


def in_place_of(name: str, other: str, value: str) -> Remake:
    """Return a function that replaces a keyword argument of a call by another one."""

    def remake(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        present = argument(call, name)
        assert present is not None
        new = present.with_changes(keyword=cst.Name(other), value=cst.parse_expression(value))
        return call.with_changes(args=[new if arg is present else arg for arg in call.args])

    return remake


def without_argument(name: str) -> Remake:
    """Return a function that removes a keyword argument from a call without comments."""

    def remake(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        kept = [arg for arg in call.args if not (arg.keyword and arg.keyword.value == name)]
        if kept and len(kept) < len(call.args) and call.args[-1] not in kept:
            kept[-1] = kept[-1].with_changes(
                comma=call.args[-1].comma, whitespace_after_arg=call.args[-1].whitespace_after_arg
            )
        return call.with_changes(args=kept)

    return remake


def _appended(call: cst.Call, name: str, value: cst.BaseExpression) -> Sequence[cst.Arg]:
    """Return the arguments and one more, on a line of its own where they have lines of their own."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = cst.Arg(value, cst.Name(name), tight)
    if not call.args:
        return [new]
    last = call.args[-1]
    ends_with_comma = isinstance(last.comma, cst.Comma)
    end = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    between, bare = _between(call, ends_with_comma=ends_with_comma), end
    if isinstance(end, cst.ParenthesizedWhitespace):
        bare = _without_comments(end)
        if ends_with_comma or end.first_line.comment is not None or end.empty_lines:  # it is the last argument's
            start = between if isinstance(between, cst.ParenthesizedWhitespace) else end
            between = start.with_changes(first_line=end.first_line, empty_lines=end.empty_lines)
    nothing = cst.SimpleWhitespace("")
    first = last.with_changes(comma=cst.Comma(whitespace_after=between), whitespace_after_arg=nothing)
    comma = {"comma": cst.Comma(whitespace_after=bare)} if ends_with_comma else {"whitespace_after_arg": bare}
    return [*call.args[:-1], first, new.with_changes(**comma)]


def _between(call: cst.Call, *, ends_with_comma: bool) -> cst.BaseParenthesizableWhitespace:
    """Return what stands between arguments, without comments: a line break where they have lines of their own."""
    places = [arg.comma.whitespace_after for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)]
    for place in (*places, call.whitespace_before_args):
        if isinstance(place, cst.ParenthesizedWhitespace):
            return _without_comments(place)
    last = call.args[-1].comma
    after = last.whitespace_after if ends_with_comma and isinstance(last, cst.Comma) else None
    if isinstance(after, cst.ParenthesizedWhitespace):
        return after.with_changes(indent=True, last_line=cst.SimpleWhitespace("    "))
    return cst.SimpleWhitespace(" ")


def _without_comments(space: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    return space.with_changes(first_line=cst.TrailingWhitespace(newline=space.first_line.newline), empty_lines=[])


VIEWS = {"reshape", "view", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous"}
"""Methods that show the same memory in another shape, or copy it on the host."""
CASTS = {"bfloat16", "bool", "double", "float", "half", "int", "long"}
COPYING = {"to", "cuda", "type"}
DEVICES = ("device", "dev")
"""The last words of usual names for a device."""
DEVICE = m.Arg(keyword=None, star="") | m.Arg(keyword=m.Name("device"), star="")
MOVE, CUDA = (m.Call(m.Attribute(attr=m.Name(name)), given) for name, given in (("to", [DEVICE]), ("cuda", [])))


def is_copy(call: cst.Call) -> bool:
    """Return whether a call may copy a tensor to the GPU: `.type()` without an argument only asks."""
    return method(call) in COPYING and (method(call) != "type" or bool(call.args))


def copied_by(call: cst.Call) -> cst.BaseExpression:
    """Return what a call copies to the GPU, as it was before its shape changed: `x` of `x.view(-1).cuda()`."""
    node = cst.ensure_type(call.func, cst.Attribute).value
    while isinstance(node, cst.Call) and method(node) in VIEWS:
        node = cst.ensure_type(node.func, cst.Attribute).value
    return node


def moved_to(source: SourceFile, call: cst.Call) -> tuple[cst.Call, cst.BaseExpression]:
    """Return the call that moves what a call makes, `….to(device)`, and the device. Raises NotSafe."""
    attribute = source.parent(call)
    move = source.parent(attribute) if isinstance(attribute, cst.Attribute) and attribute.value is call else None
    if isinstance(move, cst.Call) and m.matches(move, CUDA):
        return move, cst.SimpleString('"cuda"')
    if isinstance(move, cst.Call) and m.matches(move, MOVE) and _is_device(source, move.args[0].value):
        return move, move.args[0].value
    raise NotSafe("the source does not show that it goes to a device, and to which")


def _is_device(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a device by its name: `"cuda"`, `self.device`."""
    name = source.code(node).rpartition(".")[2].lower().rpartition("_")[2]
    return isinstance(node, cst.SimpleString) or (isinstance(node, cst.Name | cst.Attribute) and name in DEVICES)
