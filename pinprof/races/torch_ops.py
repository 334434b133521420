"""What torch's operators do, by their schemas: what they read and write, and what they copy between host and device."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pinprof.races.gpu import Gpu

_aten: Any = torch.ops.aten
ATEN_COPY, ATEN_TO_COPY, ATEN_FOREACH_COPY = _aten.copy_.default, _aten._to_copy.default, _aten._foreach_copy_.default  # noqa: SLF001
COPY_OPERATORS = frozenset((ATEN_COPY, ATEN_TO_COPY, ATEN_FOREACH_COPY))
"""The operators that can copy between host and device without blocking; `to`, `cuda` and `cpu` call them."""
IGNORES_CONTENTS = re.compile(
    "aten::(_reshape_alias|_unsafe_view|is_pinned|is_same_size|lift_fresh|record_stream|resize_|set_"
    "|(new_|empty|size|sym_|stride|storage_offset).*|.*_like)"
)
"""Operators that take tensors but do not read their contents, although their schema does not say so."""


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
    if IGNORES_CONTENTS.fullmatch(schema.name) or torch.Tag.inplace_view in op.tags:
        return ()
    return tuple(
        Effect(position, argument.name, argument.alias_info is not None, _training(schema, argument.name))
        for position, argument in enumerate(schema.arguments)
        if "Tensor" in str(argument.type) and (argument.alias_info is None or argument.alias_info.is_write)
    )  # an alias that it does not write is the base of a view


BATCH_NORM_STATISTICS = ("running_mean", "running_var")
"""Arguments that batch norm writes in training; the schemas of its older forms do not say so."""


def _training(schema: Any, argument: str) -> int | None:
    names = [parameter.name for parameter in schema.arguments]
    lacks_write = argument in BATCH_NORM_STATISTICS and schema.name.endswith("batch_norm") and "training" in names
    return names.index("training") if lacks_write else None


@cache
def may_copy_within(op: Any) -> bool:
    """Return whether an operator consists of others and returns its argument or a copy, like `to` and `reshape`."""
    returns = op._schema.returns  # noqa: SLF001  see above
    aliases = any(result.alias_info is not None and not result.alias_info.is_write for result in returns)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001  no public name
    return aliases and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite)  # noqa: SLF001


def accesses_of(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Tensor, bool]]:
    """Yield the tensors whose contents a call of an operator uses, and whether it writes them."""
    for position, name, writes, training in effects(op):
        value = args[position] if position < len(args) else kwargs.get(name)
        for tensor in value if isinstance(value, list | tuple) else (value,):
            if isinstance(tensor, Tensor):
                yield tensor, writes or (training is not None and bool(args[training]))


@dataclass(frozen=True)
class Transfer:
    """A copy with one side on the host and the other on a device."""

    host: Tensor
    device: Tensor
    to_host: bool

    @property
    def is_direct(self) -> bool:
        """Whether the device uses the host's tensor itself, in a non-blocking copy.

        Otherwise torch copies through a contiguous tensor, and the host reads or writes its own tensor before the call
        returns (ATen/native/cuda/Copy.cu: copy_requires_temporaries, and the code below that makes tensors contiguous).
        """
        if self.host.is_contiguous():
            return self.to_host or self.host.shape == self.device.shape
        return self.host.dtype == self.device.dtype and _same_order(self.host, self.device)


def parts(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that hold the memory of a tensor: itself, or the indices and the values of a sparse one."""
    if tensor.is_nested:
        yield tensor.values()
    elif tensor.layout == torch.strided:
        yield tensor
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())  # noqa: SLF001  the public ones require a coalesced tensor
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())


def is_transfer(gpu: Gpu, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether one of `COPY_OPERATORS` copies between the host and a device."""
    if op is ATEN_TO_COPY:
        target = kwargs.get("device")
        return target is not None and gpu.owns(target) != gpu.owns(args[0])
    return any(gpu.owns(to) != gpu.owns(source) for to, source in _pairs(op, args, None))


def transfers(gpu: Gpu, op: Any, args: tuple[Any, ...], result: Any) -> Iterator[Transfer]:
    """Yield the copies between host and device of a call of one of `COPY_OPERATORS`."""
    for to, source in _pairs(op, args, result):
        to_host = not gpu.owns(to)
        if to_host == gpu.owns(source):
            for pair in zip(parts(to), parts(source), strict=False):
                host, device = pair if to_host else pair[::-1]
                yield Transfer(host, device, to_host)


def is_non_blocking(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of one of `COPY_OPERATORS` asks not to block."""
    if op is not ATEN_TO_COPY and len(args) > 2:  # noqa: PLR2004  destination, source, non_blocking
        return bool(args[2])
    return bool(kwargs.get("non_blocking", False))


def _pairs(op: Any, args: tuple[Any, ...], result: Any) -> Iterator[tuple[Tensor, Tensor]]:
    if op is ATEN_FOREACH_COPY:
        yield from zip(args[0], args[1], strict=True)
    elif op is ATEN_COPY:
        yield args[0], args[1]
    else:
        yield result, args[0]


def _same_order(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have equal sizes and strides and no gaps, so that one copy of bytes is enough."""
    if one.shape != other.shape:
        return False
    dims = sorted((stride, size) for stride, size in zip(one.stride(), one.shape, strict=True) if size > 1)
    other_dims = sorted((stride, size) for stride, size in zip(other.stride(), other.shape, strict=True) if size > 1)
    filled = 1
    for stride, size in dims:
        if stride != filled:
            return False
        filled *= size
    return dims == other_dims
