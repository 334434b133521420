"""Keeps the copies that may still run, as far as the host knows, by the bytes of host memory that they use."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from pinprof.races.clocks import Ticket

Access = Literal["read", "write", "view", "unpin"]
"""What the host does with memory; the guard does not see the reads and writes of a view, such as a numpy array."""
SWEEP_AT_COPIES = 64  # copies whose memory is gone are dropped at this number of copies, and at each doubling of it


@dataclass(frozen=True, eq=False)
class Copy:
    """An asynchronous copy between a device and pinned memory of the host."""

    ticket: Ticket
    memory: "Extent"  # on the host
    to_host: bool
    dtype: str
    stack: Any  # the stack of the call, in the form that the reporter reads
    has_ended: Callable[[], bool]
    is_freed: Callable[[], bool]  # returns whether the storage on the host is gone

    @property
    def is_past(self) -> bool:
        """Whether the memory may now belong to another tensor."""
        return self.is_freed() and self.has_ended()

    def conflicts_with(self, kind: Access) -> bool:
        """Return whether this access is unsafe before the copy has ended: only reading its source is safe."""
        return self.to_host or kind != "read"


class PendingCopies:
    """Copies, sorted by address."""

    def __init__(self) -> None:
        self._addresses: list[int] = []
        self._copies: list[Copy] = []
        self._longest = 0
        self._sweep_at = SWEEP_AT_COPIES

    def __len__(self) -> int:
        return len(self._copies)

    def add(self, copy: Copy) -> None:
        """Add a copy; it replaces an earlier one of the same memory on the same stream, which ends before it."""
        first = bisect_left(self._addresses, copy.memory.address)
        after = bisect_right(self._addresses, copy.memory.address)
        for number in range(first, after):
            if _stands_for(copy, self._copies[number]):
                self._copies[number] = copy
                return
        self._addresses.insert(after, copy.memory.address)
        self._copies.insert(after, copy)
        self._longest = max(self._longest, copy.memory.end - copy.memory.address)
        if len(self) >= self._sweep_at:
            self.drop(lambda old: old.is_past)
            self._sweep_at = max(SWEEP_AT_COPIES, 2 * len(self))

    def overlapping(self, memory: "Extent") -> list[Copy]:
        """Return the copies that share a byte with memory."""
        if memory.end == memory.address:
            return []
        first = bisect_left(self._addresses, memory.address - self._longest)
        last = bisect_left(self._addresses, memory.end)
        return [copy for copy in self._copies[first:last] if copy.memory.overlaps(memory)]

    def drop(self, is_done: Callable[[Copy], bool]) -> None:
        """Remove copies."""
        self._copies = [copy for copy in self._copies if not is_done(copy)]
        self._addresses = [copy.memory.address for copy in self._copies]
        self._longest = max((copy.memory.end - copy.memory.address for copy in self._copies), default=0)


def _stands_for(copy: Copy, earlier: Copy) -> bool:
    return (
        copy.memory == earlier.memory
        and copy.to_host == earlier.to_host
        and copy.ticket.stream == earlier.ticket.stream
    )


MAX_OVERLAP_WORK = 100_000  # steps after which the search for a byte that two strided tensors share stops


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
            return np.shares_memory(_as_array(self), _as_array(other), max_work=MAX_OVERLAP_WORK)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True


def _as_array(extent: Extent) -> np.ndarray[Any, Any]:
    """Return an array of the same layout, for its addresses only: nobody may read it."""
    layout = {
        "version": 3,
        "typestr": f"|V{extent.itemsize}",
        "data": (extent.address, True),
        "shape": extent.shape,
        "strides": extent.strides,
    }
    return np.asarray(SimpleNamespace(__array_interface__=layout))
