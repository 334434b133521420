"""What an operator of torch reads and what it writes, by its schema."""

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
"""Operators that take tensors, but not what is in them, and whose schema does not say so."""

LOOKS_ONLY_ENDING = ("_like",)
LOOKS_ONLY_BEGINNING = ("aten::new_", "aten::empty", "aten::size", "aten::sym_", "aten::stride", "aten::storage_offset")


class Effect(NamedTuple):
    """What an operator does with the contents of the tensors of one argument."""

    position: int
    name: str
    writes: bool
    training: int | None = None
    """The position of the argument that, if true, says that it writes, which the schema does not."""


@cache
def effects(op: Any) -> tuple[Effect, ...]:
    """Return what an operator reads and writes, by its arguments; those that it only looks at are left out."""
    schema = op._schema  # noqa: SLF001  the only place where an operator says it
    if _looks_only(op, schema.name):
        return ()
    return tuple(
        Effect(position, argument.name, argument.alias_info is not None, _training(schema, argument.name))
        for position, argument in enumerate(schema.arguments)
        if "Tensor" in str(argument.type) and (argument.alias_info is None or argument.alias_info.is_write)
    )  # an alias that is not written is the base of a view


STATISTICS = ("running_mean", "running_var")
"""What batch norm writes while it trains; the schemas of its older forms do not say so."""


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
    """Return whether an operator is made of others and returns its argument or a copy of it, as `to` and `reshape`."""
    returns = op._schema.returns  # noqa: SLF001  see above
    aliases = any(result.alias_info is not None and not result.alias_info.is_write for result in returns)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001  no public name
    return aliases and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite)  # noqa: SLF001


@cache
def makes_new(op: Any) -> bool:
    """Return whether an operator returns tensors in memory of their own."""
    return any(result.alias_info is None for result in op._schema.returns)  # noqa: SLF001  see above


def touched(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the tensors whose contents a call of an operator uses, with whether it writes them."""
    for position, name, writes, training in effects(op):
        value = args[position] if position < len(args) else kwargs.get(name)
        for tensor in tensors_in(value):
            yield tensor, writes or (training is not None and bool(args[training]))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of an argument or a result: itself, or those of a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            if isinstance(each, torch.Tensor):
                yield each
