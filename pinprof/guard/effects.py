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


@cache
def effects(op: Any) -> tuple[Effect, ...]:
    """Return what an operator reads and writes, by its arguments; those that it only looks at are left out."""
    schema = op._schema  # noqa: SLF001  the only place where an operator says it
    if _looks_only(op, schema.name):
        return ()
    return tuple(
        Effect(position, argument.name, argument.alias_info is not None)
        for position, argument in enumerate(schema.arguments)
        if "Tensor" in str(argument.type) and (argument.alias_info is None or argument.alias_info.is_write)
    )  # an alias that is not written is the base of a view


def _looks_only(op: Any, name: str) -> bool:
    return (
        name in LOOKS_ONLY
        or name.endswith(LOOKS_ONLY_ENDING)
        or name.startswith(LOOKS_ONLY_BEGINNING)
        or torch.Tag.inplace_view in op.tags
    )


@cache
def makes_new(op: Any) -> bool:
    """Return whether an operator returns tensors in memory of their own."""
    return any(result.alias_info is None for result in op._schema.returns)  # noqa: SLF001  see above


def touched(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the tensors whose contents a call of an operator uses, with whether it writes them."""
    for position, name, writes in effects(op):
        value = args[position] if position < len(args) else kwargs.get(name)
        for tensor in tensors_in(value):
            yield tensor, writes


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of an argument or a result: itself, or those of a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            if isinstance(each, torch.Tensor):
                yield each
