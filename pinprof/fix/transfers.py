"""`non_blocking=True` on copies of batches from pinned memory to the GPU."""

from typing import NamedTuple

import libcst as cst

from pinprof.fix.batches import cast_before, check_uses, copied_by, gone_through, is_copy, path_of
from pinprof.fix.calls import argument, check_plain, method, with_argument
from pinprof.fix.chains import moved_to
from pinprof.fix.drawn import batch_of, part
from pinprof.fix.kinds import REAL_TYPES
from pinprof.fix.rewrite import NotSafe, Rewrite
from pinprof.fix.source import SourceFile
from pinprof.fix.told import Told
from pinprof.fix.waits import check_no_other, check_runs_in_order
from pinprof.trace.lines import Place
from pinprof.trace.made import DENSE, MadeLoader


class Copied(NamedTuple):
    """A copy of a batch, or of a part of it."""

    source: SourceFile
    call: cst.Call
    loader: MadeLoader | None
    """None where the program pins the memory itself, for this copy."""


def copy_calls(source: SourceFile, place: Place, told: Told) -> list[cst.Call]:
    """Return the calls on a line that copy to the GPU. Raises Refusal where the line may do something else."""
    if not told.are_to_gpu(place):
        raise NotSafe("the trace has no copy to the GPU at this line alone")
    calls = [call for call in source.calls(place.line or 0) if is_copy(call)]
    if not calls:
        raise NotSafe("no call of .to(), .cuda() or .type() begins on the line")
    return calls


def non_blocking(copied: Copied) -> Rewrite | None:
    """Return the rewrite of a copy; None where it says so already.

    What `x.float()` makes is not pinned: then `x` itself is copied, and its type changes on the GPU.
    """
    source, call = copied.source, copied.call
    _check_arguments(source, call)
    cast = cast_before(call)
    if cast is not None and not _only_moves(source, call):
        raise NotSafe("the copy itself may change the type, too")
    check_no_other(source)
    check_runs_in_order(source, call)
    given = argument(call, "non_blocking")
    says = source.code(given.value) if given is not None else "False"
    if says not in {"True", "False"}:
        raise NotSafe(f"the source says non_blocking={says}; change it where that is set")
    if says == "True" and cast is None:
        return None
    if argument(call, "copy") or argument(call, "memory_format"):
        raise NotSafe("the copy has arguments that change what it makes")
    remake = with_argument("non_blocking", "True")
    if cast is None:
        return source.rewrite(call, "non_blocking=True", remake)
    what = "the type changes on the GPU" if says == "True" else "non_blocking=True"
    return source.rewrite(call, what, lambda node: _cast_there(cst.ensure_type(remake(node), cst.Call)))


def _only_moves(source: SourceFile, call: cst.Call) -> bool:
    """Return whether a copy leaves the type as it is: `.to(other)` may not."""
    given = [each for each in call.args if not (each.keyword and each.keyword.value == "non_blocking")]
    bare = call.with_changes(args=given)
    return method(call) == "cuda" or (method(call) == "to" and moved_to(source, bare) is not None)


def _cast_there(copy: cst.Call) -> cst.BaseExpression:
    """Return `x.cuda().float()` for `x.float().cuda()`."""
    function = cst.ensure_type(copy.func, cst.Attribute)
    cast = cst.ensure_type(function.value, cst.Call)
    cast_function = cst.ensure_type(cast.func, cst.Attribute)
    inner = copy.with_changes(func=function.with_changes(value=cast_function.value), lpar=cast.lpar, rpar=cast.rpar)
    return cast.with_changes(func=cast_function.with_changes(value=inner), lpar=copy.lpar, rpar=copy.rpar)


def _check_arguments(source: SourceFile, call: cst.Call) -> None:
    """Raise Refusal for a copy that may say by position whether it blocks: `x.to(device, torch.half)` does not."""
    given = [each.value for each in call.args if not each.keyword]
    is_typed = method(call) == "to" and len(given) == 2 and source.qualified(given[1]) in REAL_TYPES  # noqa: PLR2004
    check_plain(call, 2 if is_typed else 1, "the copy")


def loader_of(source: SourceFile, call: cst.Call, place: Place, told: Told) -> MadeLoader:
    """Return the DataLoader whose batch a call copies. Raises Refusal where the batch may come from elsewhere."""
    copied = copied_by(call)
    each_of = gone_through(source, call)
    name, keys = each_of.path if each_of else path_of(copied)
    batch = batch_of(source, call, name)
    loader = told.loader_of(place, source.line(batch.loop))
    if loader is None:
        raise NotSafe("the trace does not show that the loop draws from one DataLoader")
    kind = part(loader.batch, [*batch.keys, *keys])
    if not (_are_dense(kind, each_of.kind) if each_of else kind == DENSE):
        raise NotSafe(f"{source.code(copied)} is not known to be a tensor of the batch")
    names: list[tuple[str, cst.CSTNode]] = [(name, each_of.node if each_of else call)]
    if batch.apart:
        names.append((batch.name, batch.apart))
    for each, at in names:
        check_uses(source, batch.loop, each, at, lambda line: told.are_to_gpu(place._replace(line=line)))
    return loader


def _are_dense(batch: object, kind: type) -> bool:
    """Return whether all parts of a list or a mapping, as it was recorded, are tensors."""
    parts = batch.get("dict") if isinstance(batch, dict) and kind is dict else batch
    values = list(parts.values()) if isinstance(parts, dict) and kind is dict else parts
    return isinstance(values, list) and bool(values) and all(each == DENSE for each in values)
