"""What an operator of torch reads and what it writes, by its schema."""

from collections.abc import Iterator
from functools import cache
from typing import Any

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


@cache
def effects(op: Any) -> tuple[bool | None, ...]:
    """Return for each argument of an operator whether it is written (True), read (False) or neither (None)."""
    schema = op._schema  # noqa: SLF001  the only place where an operator says it
    if _looks_only(op, schema.name):
        return tuple(None for _ in schema.arguments)
    return tuple(_effect(argument) for argument in schema.arguments)


def _effect(argument: Any) -> bool | None:
    if argument.alias_info is None:
        return False
    return True if argument.alias_info.is_write else None  # an alias without a write is the base of a view


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
    for index, (argument, writes) in enumerate(zip(op._schema.arguments, effects(op), strict=True)):  # noqa: SLF001
        if writes is not None:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
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
