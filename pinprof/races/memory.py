"""Finds the bytes of memory that a tensor covers, and whether two tensors share a byte."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

HARDEST = 100_000
"""Steps after which the search for a byte that two strided tensors share stops."""


@dataclass(frozen=True)
class Extent:
    """The bytes of a tensor: address of its first element, sizes, strides in bytes, bytes of an element."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @cached_property
    def end(self) -> int:
        """The address after the last byte; the first address if the tensor is empty. Strides are never negative."""
        if 0 in self.shape:
            return self.address
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.address + last + self.itemsize

    @cached_property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.itemsize

    @cached_property
    def is_dense(self) -> bool:
        """Whether it covers each byte from its first to its last once, in any order of its dimensions."""
        filled = self.itemsize
        for stride, size in sorted((stride, size) for stride, size in zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride != filled:
                return False
            filled *= size
        return True

    def overlaps(self, other: "Extent") -> bool:
        """Return whether a byte belongs to both; also True if the search for one takes too long."""
        if self.address >= other.end or other.address >= self.end or not self.nbytes or not other.nbytes:
            return False
        if self.is_dense and other.is_dense:
            return True
        try:
            return np.shares_memory(_as_array(self), _as_array(other), max_work=HARDEST)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True


def _as_array(extent: Extent) -> np.ndarray[Any, Any]:
    """Return an array of the same layout, for its addresses only: nobody may read it."""
    return np.asarray(_Layout(extent))


class _Layout:
    """An object that numpy takes for memory of this extent."""

    def __init__(self, extent: Extent) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{extent.itemsize}",
            "data": (extent.address, True),
            "shape": extent.shape,
            "strides": extent.strides,
        }
