"""Follows the copies of a program and its uses of host memory, and finds the pairs that nothing orders."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from pinprof.program.frames import Stack, nearest_line, stack_from
from pinprof.program.user_program import OWN_FOLDERS
from pinprof.races import torch_ops
from pinprof.races.clocks import EndedCopies, Stream, VectorClocks
from pinprof.races.gpu import Gpu
from pinprof.races.pending_copies import Access, Copy, Extent, PendingCopies
from pinprof.races.violation import Violation, rule_for, source_of
from pinprof.trace.lines import SourceLine

OnViolation = Callable[[Violation], None]  # takes a violation; may raise
Use = tuple[Extent, Access]
_Conflict = tuple[Copy, Access, bool]
"""A copy, what the host does with its memory, and whether the copy has ended by now."""
FILES_AROUND_A_MODE = (os.path.join("torch", "_compile.py"), os.path.join("torch", "_dynamo", "eval_frame.py"))  # noqa: PTH118
ACCESS_VERBS: dict[Access, str] = {
    "read": "reads",
    "write": "writes",
    "view": "hands out a view",
    "unpin": "takes the memory",
}
CAPTURED_UNSEEN = (
    "copies in CUDA graphs were captured: the guard does not see what a replay reads and writes on the host"
)


class Watch:
    """Knows a program's copies from its neighbours; `report` gets a violation first, and can prevent it."""

    def __init__(self, gpu: Gpu, report: OnViolation, on_copy: Callable[[], None] = lambda: None) -> None:
        self.gpu = gpu
        self.clocks = VectorClocks()
        self.followed = 0  # how many copies it has followed so far
        self.notes: set[str] = set()  # what it could not follow
        self._report = report
        self._on_copy = on_copy
        self._pending = PendingCopies()
        self._registered: dict[int, int] = {}
        self._lock = threading.RLock()

    # Operators and other uses of memory

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator and return its result."""
        if op in torch_ops.COPY_OPERATORS and torch_ops.is_transfer(self.gpu, op, args, kwargs):
            return self._copy(op, args, kwargs)
        if not self._pending:
            return op(*args, **kwargs)
        owns = self.gpu.owns
        uses: list[tuple[Tensor, Access]] = [
            (tensor, "write" if writes else "read")
            for tensor, writes in torch_ops.accesses_of(op, args, kwargs)
            if not owns(tensor)
        ]
        if uses:
            self.use(uses, op._schema.name)  # noqa: SLF001  the only place where an operator says it
        return op(*args, **kwargs)

    def use(self, used: Iterable[tuple[Tensor, Access]], action: str) -> None:
        """Report those of these uses of host memory that are unsafe."""
        if self._pending:
            uses = [(extent, kind) for tensor, kind in used for extent in self._extents(tensor)]
            self._report_conflicts(self._conflicts(uses), action)

    def _conflicts(self, uses: Iterable[Use], is_over: Callable[[Copy], bool] = lambda _: False) -> list[_Conflict]:
        with self._lock:
            conflicts: dict[Copy, Access] = {}
            for extent, kind in uses:
                for copy in self._pending.overlapping(extent):
                    if copy.is_past or is_over(copy):
                        continue
                    if copy.conflicts_with(kind) and conflicts.get(copy) != "write":
                        conflicts[copy] = kind
            return [(copy, kind, copy.has_ended()) for copy, kind in conflicts.items()]

    def _report_conflicts(self, conflicts: list[_Conflict], action: str, by: Stream | None = None) -> None:
        if not conflicts:
            return
        place = place_of(stack_from(sys._getframe(1)))  # noqa: SLF001  the only way to the caller's frames
        for copy, kind, had_ended in conflicts:
            copied_at = place_of(copy.stack)
            if kind == "unpin":  # reported once, because the memory has another owner now
                with self._lock:
                    self._pending.drop(copy.__eq__)
            self._report(
                Violation(
                    rule=rule_for(kind, to_host=copy.to_host),
                    direction="DtoH" if copy.to_host else "HtoD",
                    dtype=copy.dtype,
                    shape=copy.memory.shape,
                    nbytes=copy.memory.nbytes,
                    stream=copy.ticket.stream,
                    copy=copied_at,
                    access=place,
                    action=f"{action} {ACCESS_VERBS[kind]}",
                    access_stream=by,
                    thread=threading.current_thread().name,
                    had_ended=had_ended,
                    sources=(source_of(copied_at), source_of(place)),
                )
            )

    # Copies

    def _copy(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.gpu.is_capturing():
            self.notes.add(CAPTURED_UNSEEN)
            return op(*args, **kwargs)
        name = op._schema.name  # noqa: SLF001  the only place where an operator says it
        if not torch_ops.is_non_blocking(op, args, kwargs):
            result = op(*args, **kwargs)
            for transfer in torch_ops.transfers(self.gpu, op, args, result):
                stream = self.gpu.current_stream(transfer.device.device.index)
                self._use_by_copy(transfer, stream, name)
                self.learn(self.clocks.ended_after(stream))
            return result
        self._on_copy()
        result = op(*args, **kwargs)
        for transfer in torch_ops.transfers(self.gpu, op, args, result):
            device = transfer.device.device.index
            stream = self.gpu.current_stream(device)
            if self._use_by_copy(transfer, stream, name):
                self._add(transfer, stream, self.gpu.mark(device))
        return result

    def _use_by_copy(self, transfer: torch_ops.Transfer, stream: Stream, name: str) -> bool:
        """Report an unsafe use by a copy; return whether the GPU uses the memory, not the host within the call."""
        kind: Access = "write" if transfer.to_host else "read"
        if not (transfer.is_direct and self.gpu.is_pinned(transfer.host)):  # through memory of torch or the driver
            self.use([(transfer.host, kind)], name)
            return False
        uses = [(extent, kind) for extent in self._extents(transfer.host)]
        conflicts = self._conflicts(uses, lambda copy: self.clocks.precedes(copy.ticket, stream))
        self._report_conflicts(conflicts, name, stream)
        return True

    def _add(self, transfer: torch_ops.Transfer, stream: Stream, has_ended: Callable[[], bool]) -> None:
        storage = _weak_ref(transfer.host.untyped_storage())
        stack = stack_from(sys._getframe(1))  # noqa: SLF001  the only way to the caller's frames
        for memory in self._extents(transfer.host):
            with self._lock:
                self.followed += 1
                self._pending.add(
                    Copy(
                        ticket=self.clocks.submit(stream),
                        memory=memory,
                        to_host=transfer.to_host,
                        dtype=str(transfer.host.dtype).removeprefix("torch."),
                        stack=stack,
                        has_ended=has_ended,
                        is_freed=storage.expired,
                    )
                )

    def _extents(self, tensor: Tensor) -> list[Extent]:
        """Return the extents of a tensor; none if torch does not tell its addresses."""
        try:
            return [_extent(part) for part in torch_ops.parts(tensor) if part.numel()]
        except RuntimeError:
            self.notes.add(
                f"{type(tensor).__name__} of layout {tensor.layout}: torch does not tell where its memory is"
            )
            return []

    def register(self, address: int, size: int, *_flags: int) -> None:
        """Note memory that the program pins itself."""
        self._registered[address] = size

    def unregister(self, address: int) -> None:
        """Report the copies of memory that the program unpins."""
        memory = Extent(address, (self._registered.pop(address, 1),), (1,), 1)
        self._report_conflicts(self._conflicts([(memory, "unpin")]), "cudaHostUnregister")

    # Streams, events and waits

    def learn(self, ended: EndedCopies) -> None:
        """Note what the host now knows to have ended."""
        with self._lock:
            if self.clocks.host_learns(ended):
                self._pending.drop(lambda copy: self.clocks.is_over(copy.ticket))

    def ended_after_now(self) -> EndedCopies:
        """Return which copies have ended once the present work of this thread's current streams has ended."""
        return self.clocks.ended_after(*map(self.gpu.current_stream, self.clocks.devices()))

    def forget(self) -> None:
        """Forget all copies, as a forked process must: they belong to its parent."""
        self.clocks, self._pending, self._lock = VectorClocks(), PendingCopies(), threading.RLock()


def place_of(stack: Stack) -> SourceLine:
    """Return the program's line of a stack, or the innermost line of a stack of libraries."""
    # without the frames of pinprof, and those of torch around a mode, which prevents compiling it
    files = (code.co_filename for code, _ in stack)
    between = takewhile(lambda file: file.startswith(OWN_FOLDERS) or file.endswith(FILES_AROUND_A_MODE), files)
    frames = stack[len(list(between)) :]
    line = nearest_line(frames)
    if line is None:
        code, number = frames[0] if frames else stack[-1]
        line = SourceLine(code.co_filename, number, code.co_name)
    return line


def _extent(tensor: Tensor) -> Extent:
    size = tensor.element_size()
    return Extent(tensor.data_ptr(), tuple(tensor.shape), tuple(stride * size for stride in tensor.stride()), size)


_weak_ref: Any = StorageWeakRef
