"""Finds the copies between the host and a device that torch's operators make."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pinprof.races.gpu import Gpu

_aten: Any = torch.ops.aten
COPY, TO_COPY, FOREACH_COPY = _aten.copy_.default, _aten._to_copy.default, _aten._foreach_copy_.default  # noqa: SLF001
COPIES = frozenset((COPY, TO_COPY, FOREACH_COPY))
"""The operators that can copy between host and device without blocking; `to`, `cuda` and `cpu` call them."""


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


def crosses(gpu: Gpu, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether one of `COPIES` copies between the host and a device."""
    if op is TO_COPY:
        target = kwargs.get("device")
        return target is not None and gpu.owns(target) != gpu.owns(args[0])
    return any(gpu.owns(to) != gpu.owns(source) for to, source in _pairs(op, args, None))


def device_of(gpu: Gpu, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Return the index of the device that a call of one of `COPIES` copies from or to; None for the current one."""
    if op is TO_COPY:
        both = [args[0], kwargs["device"]]
    else:
        pair = next(pair for pair in _pairs(op, args, None) if gpu.owns(pair[0]) != gpu.owns(pair[1]))
        both = [*pair]
    there = next(side for side in both if gpu.owns(side))
    return there.device.index if isinstance(there, Tensor) else there.index


def transfers(gpu: Gpu, op: Any, args: tuple[Any, ...], result: Any) -> Iterator[Transfer]:
    """Yield the copies between host and device of a call of one of `COPIES`."""
    for to, source in _pairs(op, args, result):
        to_host = not gpu.owns(to)
        if to_host == gpu.owns(source):
            for pair in zip(parts(to), parts(source), strict=False):
                host, device = pair if to_host else pair[::-1]
                yield Transfer(host, device, to_host)


def is_non_blocking(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call of one of `COPIES` asks not to block."""
    if op is not TO_COPY and len(args) > 2:  # noqa: PLR2004  destination, source, non_blocking
        return bool(args[2])
    return bool(kwargs.get("non_blocking", False))


def _pairs(op: Any, args: tuple[Any, ...], result: Any) -> Iterator[tuple[Tensor, Tensor]]:
    if op is FOREACH_COPY:
        yield from zip(args[0], args[1], strict=True)
    elif op is COPY:
        yield args[0], args[1]
    else:
        yield result, args[0]


def _same_order(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have equal sizes and strides and no gaps, so that one copy of bytes is enough."""
    if one.shape != other.shape:
        return False
    dims = sorted((stride, size) for stride, size in zip(one.stride(), one.shape, strict=True) if size > 1)
    there = sorted((stride, size) for stride, size in zip(other.stride(), other.shape, strict=True) if size > 1)
    filled = 1
    for stride, size in dims:
        if stride != filled:
            return False
        filled *= size
    return dims == there
