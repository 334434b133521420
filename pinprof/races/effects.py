"""Tells from its schema what an operator of torch reads and writes."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch

LOOKS_ONLY = (
    "aten::_reshape_alias",
    "aten::_unsafe_view",
    "aten::is_pinned",
    "aten::is_same_size",
    "aten::lift_fresh",
    "aten::record_stream",
    "aten::resize_",
    "aten::set_",
)
"""Operators that take tensors but do not read their contents, although their schema does not say so."""

LOOKS_ONLY_ENDING = ("_like",)
LOOKS_ONLY_BEGINNING = ("aten::new_", "aten::empty", "aten::size", "aten::sym_", "aten::stride", "aten::storage_offset")


class Effect(NamedTuple):
    """What an operator does with the contents of tensors in one argument."""

    position: int
    name: str
    writes: bool
    training: int | None = None
    """The position of an argument that makes the operator write if true; the schema does not say so."""


@cache
def effects(op: Any) -> tuple[Effect, ...]:
    """Return what an operator reads and writes, by argument, without arguments whose contents it ignores."""
    schema = op._schema  # noqa: SLF001  there is no public schema
    if _looks_only(op, schema.name):
        return ()
    return tuple(
        Effect(position, argument.name, argument.alias_info is not None, _training(schema, argument.name))
        for position, argument in enumerate(schema.arguments)
        if "Tensor" in str(argument.type) and (argument.alias_info is None or argument.alias_info.is_write)
    )  # an alias that it does not write is the base of a view


STATISTICS = ("running_mean", "running_var")
"""Arguments that batch norm writes in training; the schemas of its older forms do not say so."""


def _training(schema: Any, argument: str) -> int | None:
    names = [each.name for each in schema.arguments]
    is_old = argument in STATISTICS and schema.name.endswith("batch_norm") and "training" in names
    return names.index("training") if is_old else None


def _looks_only(op: Any, name: str) -> bool:
    return (
        name in LOOKS_ONLY
        or name.endswith(LOOKS_ONLY_ENDING)
        or name.startswith(LOOKS_ONLY_BEGINNING)
        or torch.Tag.inplace_view in op.tags
    )


@cache
def may_copy_within(op: Any) -> bool:
    """Return whether an operator consists of others and returns its argument or a copy, like `to` and `reshape`."""
    returns = op._schema.returns  # noqa: SLF001  see above
    aliases = any(result.alias_info is not None and not result.alias_info.is_write for result in returns)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001  no public name
    return aliases and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite)  # noqa: SLF001


@cache
def makes_new(op: Any) -> bool:
    """Return whether an operator returns tensors in new memory."""
    return any(result.alias_info is None for result in op._schema.returns)  # noqa: SLF001  see above


def touched(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the tensors whose contents a call of an operator uses, and whether it writes them."""
    for position, name, writes, training in effects(op):
        value = args[position] if position < len(args) else kwargs.get(name)
        for tensor in tensors_in(value):
            yield tensor, writes or (training is not None and bool(args[training]))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of an argument or a result: the value itself, or those in a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            if isinstance(each, torch.Tensor):
                yield each
