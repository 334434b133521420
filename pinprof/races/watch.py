"""Follows the copies of a program and its uses of host memory, and finds the pairs that nothing orders."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import dropwhile
from types import CodeType
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from pinprof.program.frames import Stack, nearest_line, stack_from
from pinprof.program.user_program import OWN_FOLDERS
from pinprof.races.clocks import EndedCopies, Stream, VectorClocks
from pinprof.races.gpu import CopyMark, Gpu
from pinprof.races.pending_copies import Access, Copy, Extent, PendingCopies
from pinprof.races.torch_ops import (
    COPY_OPERATORS,
    Transfer,
    accesses_of,
    device_of,
    is_non_blocking,
    is_transfer,
    makes_new,
    parts,
    tensors_in,
    transfers,
)
from pinprof.races.violation import HostWait, Synchronizes, Violation, rule_for, source_of
from pinprof.trace.lines import SourceLine

OnViolation = Callable[[Violation], None]
"""Takes a violation; may raise."""

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
    """All knowledge about a program's copies; its neighbours tell it about operators, events and waits.

    With `before` it reports a violation before the access, so that `report` can prevent that. Otherwise the access
    happens first, because a report waits for the copy to learn how long it takes. It calls `on_copy` at each
    asynchronous copy.
    """

    def __init__(
        self,
        gpu: Gpu,
        report: OnViolation,
        *,
        before: bool = False,
        waits: Synchronizes | None = None,
        on_copy: Callable[[], None] = lambda: None,
    ) -> None:
        self.gpu = gpu
        self.clocks = VectorClocks()
        self.followed = 0
        """How many copies it has followed so far."""
        self.notes: set[str] = set()
        """What it could not follow."""
        self._report = report
        self._before = before
        self._waits = waits
        self._on_copy = on_copy
        self._pending = PendingCopies()
        self._registered: dict[int, int] = {}
        self._latest_wait: tuple[str, Stack, int] = "", (), 0
        """The latest wait that left copies open: how, where, and how many copies it had followed by then."""
        self._lock = threading.RLock()

    # Operators and other uses of memory

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator and return its result."""
        if op in COPY_OPERATORS and is_transfer(self.gpu, op, args, kwargs):
            return self._copy(op, args, kwargs)
        if not self._pending and self._waits is None:
            return op(*args, **kwargs)
        owns = self.gpu.owns
        uses: list[tuple[Tensor, Access]] = [
            (tensor, "write" if writes else "read")
            for tensor, writes in accesses_of(op, args, kwargs)
            if not owns(tensor)
        ]
        if not uses and not self._registered:
            return op(*args, **kwargs)
        name = op._schema.name  # noqa: SLF001  the only place where an operator says it
        result = self.use(uses, name, lambda: op(*args, **kwargs))
        if self._registered and makes_new(op):
            self._look_for_reuse(tensors_in(result), name)
        return result

    def use(self, used: Iterable[tuple[Tensor, Access]], action: str, call: Callable[[], Any]) -> Any:
        """Make a call that uses host memory, and return its result; report unsafe uses."""
        if not self._pending and self._waits is None:
            return call()
        return self._using([(extent, kind) for tensor, kind in used for extent in self._extents(tensor)], action, call)

    def _using(self, uses: list[Use], action: str, call: Callable[[], Any]) -> Any:
        conflicts = self._conflicts(uses)
        if self._before:
            self._report_conflicts(conflicts, action)
        result = call()
        if not self._before:
            self._report_conflicts(conflicts, action)
        return result

    def _look_for_reuse(self, fresh: Iterable[Tensor], action: str) -> None:
        """Report new tensors in memory that was freed during a copy."""
        extents = [extent for tensor in fresh if not self.gpu.owns(tensor) for extent in self._extents(tensor)]
        with self._lock:
            reused = {copy for extent in extents for copy in self._pending.overlapping(extent)}
            reused = {copy for copy in reused if not copy.protected and copy.is_freed()}
        self._report_conflicts([(copy, "unpin", copy.mark.has_ended()) for copy in reused], action)

    def _conflicts(self, uses: Iterable[Use], is_over: Callable[[Copy], bool] = lambda _: False) -> list[_Conflict]:
        with self._lock:
            conflicts: dict[Copy, Access] = {}
            for extent, kind in uses:
                if self._waits is not None:
                    self._waits.note_use(extent, kind, is_over)
                for copy in self._pending.overlapping(extent):
                    if copy.is_past or is_over(copy):
                        continue
                    if copy.conflicts_with(kind) and conflicts.get(copy) != "write":
                        conflicts[copy] = kind
            return [(copy, kind, copy.mark.has_ended()) for copy, kind in conflicts.items()]

    def _report_conflicts(self, conflicts: list[_Conflict], action: str, by: Stream | None = None) -> None:
        """Report conflicts of the host, or of a copy on a stream."""
        if not conflicts:
            return
        place = place_of(stack_from(sys._getframe(1)))  # noqa: SLF001  the only way to the caller's frames
        for copy, kind, had_ended in conflicts:
            copied_at = place_of(copy.stack)
            if kind == "unpin":  # reported once, because the memory has another owner now
                with self._lock:
                    self._pending.remove(copy)
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
                    copy_ns=copy.mark.took_ns(),
                    sources=(source_of(copied_at), source_of(place)),
                    latest_wait=self._wait_after(copy),
                )
            )

    def _wait_after(self, copy: Copy) -> HostWait | None:
        """Return the latest wait after a copy, which did not cover it; None without one."""
        how, stack, followed = self._latest_wait
        return HostWait(how, place_of(stack)) if followed >= copy.order else None

    # Copies

    def _copy(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.gpu.is_capturing():
            self.notes.add(CAPTURED_UNSEEN)
            return op(*args, **kwargs)
        name = op._schema.name  # noqa: SLF001  the only place where an operator says it
        if not is_non_blocking(op, args, kwargs):
            result = op(*args, **kwargs)
            for transfer in transfers(self.gpu, op, args, result):
                stream = self.gpu.current_stream(transfer.device.device.index)
                self._use_by_copy(transfer, stream, name)
                self.learn(self.clocks.ended_after(stream), "a blocking copy")
            return result
        self._on_copy()
        mark = self.gpu.begin(device_of(self.gpu, op, args, kwargs))
        result = op(*args, **kwargs)
        mark.end()
        for transfer in transfers(self.gpu, op, args, result):
            stream = self.gpu.current_stream(transfer.device.device.index)
            if self._use_by_copy(transfer, stream, name):
                self._add(transfer, stream, mark)
        return result

    def _use_by_copy(self, transfer: Transfer, stream: Stream, name: str) -> bool:
        """Report an unsafe use by a copy; return whether the GPU uses the memory, not the host within the call."""
        kind: Access = "write" if transfer.to_host else "read"
        if not (transfer.is_direct and self.gpu.is_pinned(transfer.host)):  # through memory of torch or the driver
            self.use([(transfer.host, kind)], name, lambda: None)
            return False
        uses = [(extent, kind) for extent in self._extents(transfer.host)]
        conflicts = self._conflicts(uses, lambda copy: self.clocks.precedes(copy.ticket, stream))
        self._report_conflicts(conflicts, name, stream)
        return True

    def _add(self, transfer: Transfer, stream: Stream, mark: CopyMark) -> None:
        storage = _weak_ref(transfer.host.untyped_storage())
        stack = stack_from(sys._getframe(1))  # noqa: SLF001  the only way to the caller's frames
        for memory in self._extents(transfer.host):
            with self._lock:
                self.followed += 1
                self._pending.add(
                    Copy(
                        ticket=self.clocks.submit(stream),
                        order=self.followed,
                        memory=memory,
                        to_host=transfer.to_host,
                        dtype=str(transfer.host.dtype).removeprefix("torch."),
                        stack=stack,
                        mark=mark,
                        is_freed=storage.expired,
                        protected=not any(
                            start < memory.end and memory.address < start + size
                            for start, size in self._registered.items()
                        ),
                    )
                )

    def _extents(self, tensor: Tensor) -> list[Extent]:
        """Return the extents of a tensor; none if torch does not tell its addresses."""
        try:
            return [_extent(part) for part in parts(tensor) if part.numel()]
        except RuntimeError:
            self.notes.add(
                f"{type(tensor).__name__} of layout {tensor.layout}: torch does not tell where its memory is"
            )
            return []

    def registered(self, address: int, size: int) -> None:
        """Note memory that the program has pinned itself."""
        self._registered[address] = size

    def unregister(self, address: int, call: Callable[[], Any]) -> Any:
        """Make a call that unpins memory, and return its result."""
        memory = Extent(address, (self._registered.pop(address, 1),), (1,), 1)
        return self._using([(memory, "unpin")], "cudaHostUnregister", call)

    # Streams, events and waits

    def learn(self, ended: EndedCopies, how: str, *, removable: bool = False) -> None:
        """Note what the host now knows to have ended, how, and whether the program could leave out that call."""
        with self._lock:
            news = self.clocks.host_learns(ended)
            settled = self._pending.drop(lambda copy: self.clocks.is_over(copy.ticket)) if news else []
            stack = stack_from(sys._getframe(1)) if self._pending or self._waits is not None else ()  # noqa: SLF001
            if self._pending:
                self._latest_wait = how, stack, self.followed
            if self._waits is not None and removable:
                self._waits.note_wait(how, place_of(stack), settled)

    def ended_after_now(self) -> EndedCopies:
        """Return which copies have ended once the present work of this thread's current streams has ended."""
        return self.clocks.ended_after(*map(self.gpu.current_stream, self.clocks.devices()))

    def forget(self) -> None:
        """Forget all copies, as a forked process must: they belong to its parent."""
        self.clocks, self._pending, self._waits, self._lock = VectorClocks(), PendingCopies(), None, threading.RLock()


def place_of(stack: Stack) -> SourceLine:
    """Return the program's line of a stack, or the innermost line of a stack of libraries."""
    frames = list(dropwhile(lambda frame: _is_between(frame[0]), stack))
    line = nearest_line(frames)
    if line is None:
        code, number = frames[0] if frames else stack[-1]
        line = SourceLine(code.co_filename, number, code.co_name)
    return line


def _is_between(code: CodeType) -> bool:
    """Return whether a frame is pinprof's, or torch's around a mode, which prevents compiling it."""
    return code.co_filename.startswith(OWN_FOLDERS) or code.co_filename.endswith(FILES_AROUND_A_MODE)


def _extent(tensor: Tensor) -> Extent:
    size = tensor.element_size()
    return Extent(tensor.data_ptr(), tuple(tensor.shape), tuple(stride * size for stride in tensor.stride()), size)


_weak_ref: Any = StorageWeakRef
