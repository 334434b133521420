"""Values that each step gives to a meter, and that are shown every so many: they stay on the GPU."""

import string

import libcst as cst

from pinprof.fix.calls import last_name
from pinprof.fix.kinds import is_host_number, is_real, is_tensor
from pinprof.fix.meters import Meter, meter_of
from pinprof.fix.names import check_is_not_shown, is_seldom, is_target, uses_of
from pinprof.fix.reads import Read, check_is_tensor, read_at
from pinprof.fix.rewrite import Change, NotSafe, NotThisForm, Rewrite, Waits, atom, call_of
from pinprof.fix.source import Loop, SourceFile
from pinprof.fix.sums import check_has_float64
from pinprof.fix.texts import REAL_FORMATS, has_real_format, is_value_of_text
from pinprof.fix.totals import check_factor, check_has_torch, is_divided
from pinprof.fix.waits import check_is_of_one_mode, check_may_come_later, loop_of_read


def kept_in_meter(source: SourceFile, line: int) -> Change:
    """Return the change that gives a meter a tensor, and reads what the meter made of it. Raises Refusal."""
    read = read_at(source, line)
    call, name = _update_of(source, read)
    loop = loop_of_read(source, call, f"updates {name.value}")
    uses = uses_of(source, name)
    if uses.changed or not uses.set:
        raise NotThisForm("the number does not go to a meter that is made in the function")
    meter = meter_of(source, uses)
    _check_value(source, read, call, meter)
    updates = [node for node in uses.read if _method(source, node) == "update"]
    if len(updates) > 1:
        raise NotSafe(f"{name.value} is also updated in another line than {line}")
    rewrites = [new for node in uses.read for new in _read_of(source, node, meter, loop)]
    check_may_come_later(source, read.node, loop)
    check_is_of_one_mode(source, read.node)
    check_has_float64(source)
    kept = call_of("X.detach().clone().double().reshape(())", X=atom(read.tensor))
    divides = meter.divides or is_divided(call.args[0].value)
    kept_there = source.anew(read.node, "stays on the GPU", kept)
    shown = [each for node in uses.read if (each := _shown(source, node, meter))]
    lost = (*(node for node, _ in uses.set), *(each for each in uses.read if _method(source, each) == "reset"))
    waits = Waits(source.file, (read.node,), tuple(shown), lost)
    return Change([kept_there, *rewrites], waits, numbers="rounding" if divides else "equal")


def _update_of(source: SourceFile, read: Read) -> tuple[cst.Call, cst.Name]:
    """Return the call that gives a number to a meter in a variable, and the variable. Raises Refusal."""
    small = source.statement(read.node).body[0]
    call = small.value if isinstance(small, cst.Expr) else None
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "update"):
        raise NotThisForm("the number does not go to a meter")
    if not isinstance(call.func.value, cst.Name):
        raise NotSafe(f"{source.code(call.func.value)} is not a variable of the function: other code may read it")
    return call, call.func.value


def _check_value(source: SourceFile, read: Read, call: cst.Call, meter: Meter) -> None:
    """Raise Refusal unless a real number goes to a meter as its value, with a weight of the host."""
    value, *others = call.args or (None,)
    if value is None or value.star or (value.keyword and value.keyword.value != meter.value):
        raise NotSafe("update() does not get the number as its value")
    check_factor(source, read.node, value.value)
    for each in others:
        named = each.keyword is None or each.keyword.value in meter.others
        if each.star or not named or not is_host_number(source, each.value):
            raise NotSafe(f"{source.code(each)} may not be a number on the host")
    tensor = check_is_tensor(source, read)
    if not is_real(source, tensor, read.node) or (not is_tensor(source, tensor, read.node) and read.function != "item"):
        raise NotSafe(f"{source.code(tensor)} may be no tensor, or of whole numbers")
    if read.function == "int":
        raise NotSafe("int() cuts the number off")


def _read_of(source: SourceFile, node: cst.Name, meter: Meter, loop: Loop) -> list[Rewrite]:
    """Return the rewrite where a meter is read; none where it is updated, or shows the same. Raises Refusal."""
    part = source.parent(node)
    if isinstance(part, cst.Arg):
        _check_is_formatted(source, node, part, meter)
        _check_is_seldom(source, node, loop)
        return []
    if not isinstance(part, cst.Attribute):
        raise NotSafe(f"line {source.line(node)} hands {node.value} on")
    around, taken = source.parent(part), part.attr.value
    if _method(source, node):
        if taken in {"update", "reset"}:
            return []
        raise NotSafe(f"line {source.line(node)} calls {node.value}.{taken}(), which may look at the value")
    is_read = not (isinstance(around, cst.AugAssign | cst.Attribute) or is_target(source, part))
    if not is_read or taken not in meter.attributes:
        raise NotSafe(f"line {source.line(node)} uses {source.code(part)} in another way")
    _check_is_seldom(source, node, loop)
    check_is_not_shown(source, node)
    if taken not in meter.made or _is_shown_as_real(source, part):
        return []
    check_has_torch(source, node)
    text = "X.item() if torch.is_tensor(X) else X"
    if not isinstance(around, cst.Return | cst.Arg | cst.Assign):
        text = f"({text})"
    return [source.rewrite(part, "read here", lambda each: call_of(text, X=each))]


def _shown(source: SourceFile, node: cst.Name, meter: Meter) -> cst.CSTNode | None:
    """Return what reads a number of a meter; None where it is updated, or told of how many values it knows."""
    part = source.parent(node)
    if isinstance(part, cst.Attribute):
        return part if part.attr.value in meter.made and not _method(source, node) else None
    return node


def _method(source: SourceFile, node: cst.Name) -> str:
    """Return the name of the method of a meter that is called; nothing where none is."""
    part = source.parent(node)
    call = source.parent(part) if isinstance(part, cst.Attribute) and part.value is node else None
    return last_name(call) if isinstance(call, cst.Call) and call.func is part else ""


def _check_is_seldom(source: SourceFile, node: cst.Name, loop: Loop) -> None:
    if not is_seldom(source, node, loop):
        raise NotSafe(f"{node.value} is read in each step, in line {source.line(node)}: read it every N steps")


def _is_shown_as_real(source: SourceFile, part: cst.Attribute) -> bool:
    """Return whether a value becomes a text that is the same of a tensor: `f"{losses.avg:.3f}"`."""
    return has_real_format(source.parent(part)) and is_value_of_text(source, part)


def _check_is_formatted(source: SourceFile, node: cst.Name, given: cst.Arg, meter: Meter) -> None:
    """Raise Refusal unless `"{loss.avg:.3f}".format(loss=losses)` shows attributes of a meter as real numbers."""
    call = source.parent(given)
    where = f"line {source.line(node)} hands {node.value} on"
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "format"):
        raise NotSafe(where)
    text = call.func.value
    value = text.evaluated_value if isinstance(text, cst.SimpleString | cst.ConcatenatedString) else None
    if not isinstance(value, str) or given.keyword is None:
        raise NotSafe(where)
    for _, field, spec, conversion in _fields(value):
        name, _, rest = (field or "").partition(".")
        if name.partition("[")[0] != given.keyword.value:
            continue
        is_number = rest in meter.attributes and not conversion and "{" not in (spec or "")
        if not is_number or (rest in meter.made and (spec or " ")[-1] not in REAL_FORMATS):
            raise NotSafe(f"{where}, to a text that may show more than a real number")


def _fields(text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(string.Formatter().parse(text))
    except ValueError as error:
        raise NotSafe("the text is no format") from error
