"""DataLoaders and their batches: change arguments, find parts of a batch, check that the host does not write to it."""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import NamedTuple

import libcst as cst

from pinprof.fix.core.calls import VIEWS, argument, check_plain, copied_by, is_copy, last_name, method, with_argument
from pinprof.fix.core.files import Files
from pinprof.fix.core.rewrite import NotSafe, Rewrite
from pinprof.fix.core.source import Loop, SourceFile
from pinprof.fix.core.uses import binds, bound_to, check_is_local, check_is_not_looked_at, is_target, uses_in
from pinprof.trace.constructors import DENSE, MadeLoader

PASSING_ON = {"enumerate", "tqdm", "trange", "auto", "track"}
"""Functions that yield the batches of a DataLoader as they are, by the last part of their names."""
PROGRESS = {"tqdm", "rich", "fastprogress", "accelerate"}
"""Libraries of such functions."""
NOT_DRAWN = (
    "no loop around the line draws what it copies from a DataLoader. By hand: pin it, and copy it with "
    "non_blocking=True, if nothing writes to it meanwhile"
)


class Batch(NamedTuple):
    """The batch from which a name comes, and the part that it is."""

    loop: cst.For
    keys: list[str | int]
    """Where in the batch the name's part is."""
    name: str
    """What the loop binds: the name itself, or that of the batch which the loop's body takes apart."""
    unpacked: cst.CSTNode | None = None
    """The node of that batch where it is taken apart, `batch` in `x, y = batch`."""


def batch_of(source: SourceFile, call: cst.Call, name: str) -> Batch:
    """Return the batch that a name in a loop stands for, or is a part of. Raises Refusal."""
    loop = source.loop(call)
    if not isinstance(loop, cst.For):
        raise NotSafe(NOT_DRAWN)
    if binds(loop.target, name):
        return Batch(loop, _keys_in(_target_of(source, loop), name), name)
    for node in uses_in(source, loop.body, name):
        bound = bound_to(source, node)
        if bound is None:
            continue
        value, keys = bound
        if isinstance(value, cst.Name) and binds(loop.target, value.value):
            target = _target_of(source, loop)
            if source.parent(source.statement(node)) is loop.body and source.line(node) < source.line(call):
                return Batch(loop, [*_keys_in(target, value.value), *keys], value.value, value)
        break
    raise NotSafe(f"{name} is not the batch of the loop around the line; it may be written to while it is copied")


def _target_of(source: SourceFile, loop: cst.For) -> cst.BaseExpression:
    """Return what a loop binds to each batch: with `enumerate` its second part."""
    drawn = loop.iter
    target: cst.BaseExpression = loop.target
    while isinstance(drawn, cst.Call):
        name = last_name(drawn)
        if (
            name not in PASSING_ON
            or _is_own(source, drawn.func)
            or not drawn.args
            or drawn.args[0].keyword
            or drawn.args[0].star
        ):
            raise NotSafe("the loop goes through more than a DataLoader")
        if name == "enumerate":
            if not isinstance(target, cst.Tuple) or len(target.elements) != 2:  # noqa: PLR2004  number and batch
                raise NotSafe("the loop does not name its batch")
            target = target.elements[1].value
        drawn = drawn.args[0].value
    if not isinstance(drawn, cst.Name | cst.Attribute):
        raise NotSafe("the loop goes through more than a DataLoader")
    return target


def _is_own(source: SourceFile, function: cst.BaseExpression) -> bool:
    """Return whether a function may be the program's own, not that of Python or of a library for progress."""
    if meanings := source.meanings(function):
        return any(named.partition(".")[0] not in PROGRESS for named in meanings)
    return not isinstance(function, cst.Name) or source.binding_line(function.value) is not None


def _keys_in(target: cst.BaseExpression, name: str) -> list[str | int]:
    """Return where a name stands in the target of a loop."""
    if isinstance(target, cst.Name) and target.value == name:
        return []
    if isinstance(target, cst.Tuple | cst.List):
        for index, element in enumerate(target.elements):
            if isinstance(element, cst.StarredElement):
                raise NotSafe("the loop takes its batch apart with a star")
            if binds(element.value, name):
                return [index, *_keys_in(element.value, name)]
    raise NotSafe(f"{name} is not a part of the batch")


def part(batch: object, keys: list[str | int]) -> object:
    """Return what a part of a batch is, as it was recorded; None where that is not known."""
    for key in keys:
        if isinstance(batch, dict):
            batch = batch.get("tuple", batch.get("dict"))
        if isinstance(batch, dict) and isinstance(key, str):
            batch = batch.get(key)
        elif isinstance(batch, list) and isinstance(key, int) and 0 <= key < len(batch):
            batch = batch[key]
        else:
            return None
    return batch


SAFE_ATTRIBUTES = {"shape", "dtype", "device", "ndim", "requires_grad"}
"""Attributes of a tensor that do not touch its memory."""
SAFE_METHODS = {"size", "dim", "numel", "nelement", "is_floating_point", "is_pinned", "stride", "type"}
SAFE_FUNCTIONS = {"len", "isinstance", "type"}


def path_of(node: cst.BaseExpression) -> tuple[str, list[str | int]]:
    """Return the name in `name`, `name["key"]` or `name[0]`, and the keys."""
    if isinstance(node, cst.Name):
        return node.value, []
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString | cst.Integer):
            name, keys = path_of(node.value)
            key = index.value.evaluated_value
            if isinstance(key, str | int):
                return name, [*keys, key]
    raise NotSafe("what it copies is not the name of a batch: make it on the GPU, or in pinned memory")


def check_uses(source: SourceFile, loop: cst.For, name: str, at: cst.CSTNode, copies: Callable[[int], bool]) -> None:
    """Raise Refusal if the program may write to a batch in the host's memory, or gives it to other code.

    `at` is the node that copies or unpacks it; `copies` says whether all copies at a line of the trace are to the GPU.
    """
    check_is_not_looked_at(source, source.scope(loop), name)
    moved: cst.CSTNode | None = None
    for node in uses_in(source, loop.body, name):
        bound, line = bound_to(source, node), source.line(node)
        if moved is not None and line > source.end(moved):
            break  # after that the name means the copy on the GPU
        if bound is not None:
            value, keys = bound
            if keys and isinstance(value, cst.Name) and binds(loop.target, value.value):
                continue  # x, y = batch
            is_moved = not keys and is_copy_of(value, name) and copies(source.line(value))
            if not _is_certain(source, node, loop, at):
                raise NotSafe(f"{name} is bound anew in line {line}, on a condition")
            if not is_moved:
                raise NotSafe(f"{name} is bound anew in line {line}")
            moved = source.statement(node)
        elif not (node is at or _only_looks(source, node, copies)):
            raise NotSafe(f"{name} is used on the host in line {line}, where it may be written to while it is copied")
    if moved is None or source.line(at) < source.line(moved):
        check_outside(source, loop, name)
    elif source.line(at) > source.end(moved):
        raise NotSafe(f"{name} is bound anew in line {source.line(moved)}, and the copy is of that")


def _is_certain(source: SourceFile, node: cst.Name, loop: Loop, at: cst.CSTNode) -> bool:
    """Return whether a name is bound again in each step: by a statement of the loop's body.

    The copy itself may be under a condition, `if use_cuda:`: without a copy the memory may be changed.
    """
    statement = source.statement(node)
    within = list(takewhile(lambda outer: outer is not loop.body, source.ancestors(statement)))
    on_condition = all(isinstance(outer, cst.If | cst.Else | cst.IndentedBlock) for outer in within)
    return not within or (on_condition and source.is_within(at, statement))


def _is_shown_and_copied(source: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether a node is copied, as it is or in another shape, before anything could write to it."""
    while isinstance(attribute := source.parent(node), cst.Attribute):
        call = source.parent(attribute)
        if not (isinstance(call, cst.Call) and call.func is attribute):
            return False
        if is_copy(call):
            return True
        if method(call) not in VIEWS:
            return False
        node = call
    return False


def is_copy_of(value: cst.BaseExpression, name: str) -> bool:
    """Return whether an expression is a copy of a name: `x.to(...)`, which may go on."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        of = copied_by(value)
        if is_copy(value) and isinstance(of, cst.Name):
            return of.value == name
        value = value.func.value
    return False


def _only_looks(source: SourceFile, node: cst.Name, copies: Callable[[int], bool]) -> bool:
    """Return whether a use of a batch copies it to the GPU, or does not touch its memory.

    Without a copy to the GPU in the trace, `.to()` and `.type()` may return the same memory.
    """
    inner: cst.CSTNode = node
    parent = source.parent(inner)
    while isinstance(parent, cst.Subscript) and parent.value is inner:
        inner, parent = parent, source.parent(parent)
    if isinstance(parent, cst.Attribute) and parent.value is inner:
        called = source.parent(parent)
        if isinstance(called, cst.Call) and called.func is parent:
            if is_copy(called) or parent.attr.value in VIEWS:
                return _is_shown_and_copied(source, inner) and copies(source.line(node))
            return parent.attr.value in SAFE_METHODS
        return parent.attr.value in SAFE_ATTRIBUTES
    if isinstance(parent, cst.Arg):
        call = source.parent(parent)
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in SAFE_FUNCTIONS
    return False


def check_outside(source: SourceFile, loop: Loop, name: str) -> None:
    """Raise Refusal if code outside of a loop's body may use the batch."""
    own = next(uses_in(source, loop, name))
    check_is_local(source, own)
    comes_again = source.loop(loop) is not None
    for node in uses_in(source, source.scope(loop), name):
        around = [node, *source.ancestors(node)]
        is_bound = any(
            isinstance(outer, cst.For) and binds(outer.target, name) and outer is not loop for outer in around
        )
        is_other = source.variable_scope(node) is not source.variable_scope(own)
        if is_other or is_bound or loop.body in around or is_target(source, node):
            continue
        if comes_again or source.line(node) > source.line(loop):
            raise NotSafe(f"{name} is used outside of its loop, in line {source.line(node)}")


KIND = "torch.utils.data.dataloader.DataLoader"
NAMES = ("torch.utils.data.DataLoader", KIND)
MOST_POSITIONAL = {"num_workers": 5, "pin_memory": 7, "persistent_workers": 99}
"""The number of positional arguments that certainly does not set this option."""


def made_loader(files: Files, loader: MadeLoader) -> tuple[SourceFile, cst.Call]:
    """Return the call that made a DataLoader. Raises Refusal unless it is the only one on its line."""
    if not loader.direct:
        raise NotSafe("a library made the DataLoader; ask it to")
    if loader.kind != KIND:
        raise NotSafe(f"{loader.kind} is a class derived from DataLoader, with its own arguments")
    source = files.at(loader.place)
    calls = [call for call in source.calls(loader.line or 0) if source.qualified(call.func) in NAMES]
    if len(calls) != 1:
        raise source.not_one(len(calls), "DataLoader by its imported name")
    return source, calls[0]


def with_options(files: Files, loader: MadeLoader, options: Mapping[str, str]) -> list[Rewrite]:
    """Return the rewrites that give a DataLoader some options, which may replace literals."""
    source, call = made_loader(files, loader)
    check_plain(call, min(MOST_POSITIONAL[name] for name in options), "the DataLoader")
    for name in options:
        present = argument(call, name)
        if present is not None and not isinstance(present.value, cst.Integer) and source.code(present.value) != "False":
            raise NotSafe(f"the source says {name}={source.code(present.value)}; change it where that is set")
    _refuse_later_changes(source, call, options)
    return [source.rewrite(call, f"{name}={value}", with_argument(name, value)) for name, value in options.items()]


def check_gains_by_pinning(loader: MadeLoader) -> None:
    """Raise Refusal if pinning may change the batches, or take longer than it saves."""
    if loader.batch is None:
        raise NotSafe("the recording did not see what its batches are")
    if loader.num_workers == 0:
        raise NotSafe(
            "with num_workers=0 the main thread would pin; whether that is faster depends on the machine (pinprof "
            "bench measures it, E1)"
        )
    if "tuple" in loader.parts:
        raise NotSafe("its batches are tuples, which older versions of torch turn into lists when they pin")


def check_pinnable(loader: MadeLoader) -> None:
    """Raise Refusal if the batches, as far as they are known, cannot be pinned."""
    if loader.batch is None:
        return
    for part in loader.parts:
        if part.startswith(("cuda", "cpu")):
            raise NotSafe(f"its batches hold tensors that cannot be pinned ({part})")
        if part not in {DENSE, "tuple", "str", "int", "float", "bool", "bytes", "NoneType"}:
            raise NotSafe(f"its batches hold objects of your own class ({part}); PIN105 shows how to pin them")
    if DENSE not in loader.parts:
        raise NotSafe("its batches hold no tensors")


def _refuse_later_changes(source: SourceFile, call: cst.Call, options: Mapping[str, str]) -> None:
    """Raise Refusal if the program sets or reads these options as attributes."""
    if "multiprocessing_context" in {arg.keyword.value for arg in call.args if arg.keyword}:
        raise NotSafe("it has a multiprocessing_context of its own")
    attributes = {*options, "is_pinned"} if "pin_memory" in options else {*options}
    if any(isinstance(node, cst.Attribute) and node.attr.value in attributes for node in source.nodes):
        raise NotSafe("the program sets attributes of DataLoaders itself, or asks for them")
