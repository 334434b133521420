"""Calls: their arguments, how one more is written in the layout of the others, and methods called upon methods."""

from collections.abc import Sequence

import libcst as cst

from pinprof.fix.core.rewrite import NotSafe, Remake
from pinprof.fix.core.source import SourceFile


def method(call: cst.Call) -> str | None:
    """Return the name of the method that a call is of."""
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
    """Raise Refusal for a call that would lose comments; `by_hand` says what is then left to do."""
    if "#" in code:
        raise NotSafe(f"comments stand in the call; {by_hand} by hand")


def with_argument(name: str, value: str) -> Remake:
    """Return what gives a call a keyword argument, in place of the one that it has."""

    def remake(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        given = argument(call, name)
        new = cst.parse_expression(value)
        if given is not None:
            return call.with_deep_changes(given, value=new)
        return call.with_changes(args=_appended(call, name, new))

    return remake


def in_place_of(name: str, other: str, value: str) -> Remake:
    """Return what gives a call another keyword argument in the place of one that it has."""

    def remake(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        given = argument(call, name)
        assert given is not None
        new = given.with_changes(keyword=cst.Name(other), value=cst.parse_expression(value))
        return call.with_changes(args=[new if arg is given else arg for arg in call.args])

    return remake


def without_argument(name: str) -> Remake:
    """Return what takes a keyword argument from a call, which has no comments."""

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
    if isinstance(last.comma, cst.Comma):  # a comma ends the list, with the layout before the closing bracket
        after = last.comma.whitespace_after
        broken = isinstance(after, cst.ParenthesizedWhitespace)
        between: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
        if broken:
            between = _between(call) or cst.ensure_type(after, cst.ParenthesizedWhitespace).with_changes(
                indent=True, last_line=cst.SimpleWhitespace("    ")
            )
            between = _with_comment(between, cst.ensure_type(after, cst.ParenthesizedWhitespace))
            after = cst.ensure_type(after, cst.ParenthesizedWhitespace)
            after = after.with_changes(
                first_line=cst.TrailingWhitespace(newline=after.first_line.newline), empty_lines=[]
            )
        first = last.with_changes(comma=cst.Comma(whitespace_after=between))
        return [*call.args[:-1], first, new.with_changes(comma=cst.Comma(whitespace_after=after))]
    after = last.whitespace_after_arg
    if not isinstance(after, cst.ParenthesizedWhitespace):
        between = _between(call) or cst.SimpleWhitespace(" ")
        return [
            *call.args[:-1],
            last.with_changes(comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")),
            new.with_changes(whitespace_after_arg=after),
        ]
    if after.first_line.comment is not None or after.empty_lines:
        # the comment of the last argument: the comma goes before it
        between = _with_comment(_between(call) or after, after)
        tail = after.with_changes(first_line=cst.TrailingWhitespace(newline=after.first_line.newline), empty_lines=[])
    else:
        between, tail = _between(call) or cst.SimpleWhitespace(" "), after
    return [
        *call.args[:-1],
        last.with_changes(comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")),
        new.with_changes(whitespace_after_arg=tail),
    ]


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace | None:
    """Return what stands between arguments that are on lines of their own, without comments; None on one line."""
    places = [arg.comma.whitespace_after for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)]
    places.append(call.whitespace_before_args)
    for place in places:
        if isinstance(place, cst.ParenthesizedWhitespace):
            newline = cst.TrailingWhitespace(newline=place.first_line.newline)
            return place.with_changes(first_line=newline, empty_lines=[])
    return None


def _with_comment(
    between: cst.BaseParenthesizableWhitespace, commented: cst.ParenthesizedWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """Return white space with the comment that another one has on its first line."""
    if not isinstance(between, cst.ParenthesizedWhitespace):
        return commented
    return between.with_changes(first_line=commented.first_line, empty_lines=commented.empty_lines)


VIEWS = {"reshape", "view", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous"}
"""Methods that show the same memory in another shape, or copy it on the host."""
MOVES = {"to", "cuda"}
CASTS = {"bfloat16", "bool", "double", "float", "half", "int", "long"}
KEPT = VIEWS | MOVES | CASTS
"""Methods that make another constant of one."""
DEVICES = ("device", "dev")
"""How names end that people give to a device."""


def chain_of(source: SourceFile, call: cst.Call) -> list[cst.BaseExpression]:
    """Return what is made of a tensor where it stands: `.view(1, 3)`, `[None]`, `.to(device)`; the innermost first."""
    chain: list[cst.BaseExpression] = []
    inner: cst.BaseExpression = call
    while True:
        parent = source.parent(inner)
        around = source.parent(parent) if isinstance(parent, cst.Attribute) and parent.value is inner else None
        if isinstance(around, cst.Call) and around.func is parent and method(around) in KEPT:
            inner = around
        elif isinstance(parent, cst.Subscript) and parent.value is inner and _only_shapes(parent):
            inner = parent
        else:
            return chain
        chain.append(inner)


def is_move(node: cst.BaseExpression) -> bool:
    """Return whether an expression is `x.to(...)` or `x.cuda(...)`."""
    return isinstance(node, cst.Call) and method(node) in MOVES


def moved_to(source: SourceFile, move: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the device of `x.cuda()`, `x.to("cuda")`, `x.to(self.device)`; None where it may be something else."""
    if not isinstance(move, cst.Call):
        return None
    if method(move) == "cuda":
        return cst.SimpleString('"cuda"') if not move.args else None  # `.cuda(None)` is no place of torch.full
    if len(move.args) != 1 or move.args[0].star or _keyword(move.args[0]) not in {None, "device"}:
        return None
    given = move.args[0].value
    names = source.names_in(given)
    if isinstance(given, cst.SimpleString):
        return given
    is_name = isinstance(given, cst.Name) or (isinstance(given, cst.Attribute) and _is_dotted(given))
    return given if is_name and names[-1].lower().rpartition("_")[2] in DEVICES else None


def _keyword(given: cst.Arg) -> str | None:
    return given.keyword.value if given.keyword else None


def _is_dotted(node: cst.BaseExpression) -> bool:
    """Return whether an expression is of names and dots alone: `self.device`."""
    return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and _is_dotted(node.value))


def _only_shapes(node: cst.Subscript) -> bool:
    """Return whether a subscript adds axes and takes all: `[None, :, None]`."""
    return all(_takes_all(index.slice) for index in node.slice)


def _takes_all(index: cst.BaseSlice) -> bool:
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == "None"
