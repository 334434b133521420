"""The machine as this program uses it: GPUs, clocks, gradients, pinned memory, and the CPU that it has to share."""

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.processes import MEMINFO, machine_memory
from pinprof.ground.standard_streams import OwnDescriptor
from pinprof.ground.units import NS_PER_MS
from pinprof.trace.metadata.info import HostMemory, UnreadGradients

EventMark: TypeAlias = Any  # a moment on the GPU (`torch.cuda.Event`), or None


class Delay:
    """How long this thread was ready to run while others had its CPU; 0 if Linux does not say. It takes 3 us."""

    def __init__(self) -> None:
        self._file: OwnDescriptor | None = None
        self._open()

    def _open(self) -> None:
        with suppress(OSError):
            opened = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._file = OwnDescriptor(opened)
            finally:
                os.close(opened)

    def now_ns(self) -> int:
        """Return the sum so far, in the thread that made this object."""
        if self._file and not self._file.is_ours:  # the program has closed it
            self._open()
        with suppress(OSError, IndexError, ValueError):
            return int(os.pread(self._file.number, 64, 0).split()[1]) if self._file and self._file.is_ours else 0
        return 0

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None


class Clock:
    """Times steps by the host's clock, for programs that do not use a GPU."""

    is_of_gpu = False

    def now_ns(self) -> int:
        """Return the host's time."""
        return HOST_TIME.perf_counter_ns()

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""

    def mark(self) -> EventMark:
        """Note this moment on the GPU; None without one."""
        return None

    def make_ready(self, marks: int = 1) -> None:
        """Prepare the next marks, so that making them takes no time."""

    def between(self, start: EventMark, end: EventMark) -> int | None:
        """Return the GPU's time between two marks in ns, once; None if the GPU has not reached the second."""
        raise NotImplementedError


class CudaClock(Clock):
    """Times single steps also by events in the current stream, which cause neither a wait nor a copy."""

    is_of_gpu = True

    def __init__(self) -> None:
        super().__init__()
        self._device = torch.cuda.current_device()
        self._spare: list[EventMark] = []

    def synchronize(self) -> None:
        """Wait until the GPU has done all its work."""
        torch.cuda.synchronize(self._device)

    def mark(self) -> EventMark:
        """Note in the GPU's queue that one step ends here and the next begins; None while a graph is captured."""
        stream = torch.cuda.current_stream(self._device)
        if torch.cuda.is_current_stream_capturing():
            return None
        event = self._spare.pop() if self._spare else _new_event()
        event.record(stream)
        return event

    def make_ready(self, marks: int = 1) -> None:
        """Make marks in advance: on a virtual machine making one takes 0.1 ms."""
        if torch.cuda.is_current_stream_capturing():
            return
        while len(self._spare) < marks:
            event = _new_event()
            event.record(torch.cuda.current_stream(self._device))  # torch makes an event when it is first recorded
            self._spare.append(event)

    def between(self, start: EventMark, end: EventMark) -> int | None:
        """Return the GPU's time between two marks in ns, and reuse these; None if it has not reached the second."""
        if not end.query():
            return None
        time_ns = max(round(start.elapsed_time(end) * NS_PER_MS), 1)
        self._spare += [start, end]
        return time_ns


def _new_event() -> EventMark:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def uses_cuda() -> bool:
    """Return whether this program has used a GPU so far; asking does not start one."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def clock_of_program() -> Clock:
    """Return the clock for the devices that the program has used so far."""
    return CudaClock() if uses_cuda() else Clock()


def has_gpu() -> bool:
    """Return whether there is a GPU to wait for."""
    return torch.cuda.is_available()


def sees_gpu() -> bool:
    """Return the same, asking only the driver's library: CUDA is not started, so a script can still fork."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns if the library does not fit the driver
        return torch.cuda.device_count() > 0


CGROUP_FILE, CGROUP_LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
PINNED_AND_USED = (("allocated_bytes", "active_bytes"), ("reserved_bytes", "allocated_bytes"))
"""torch's names of the pinned bytes and of those in use: the present names, then those of the first versions that
counted them. The second name distinguishes the two."""


def loaders_pin() -> bool | None:
    """Return whether active DataLoaders pin memory, None if they differ; looking at all objects takes long."""
    things = [thing for thing in gc.get_objects() if issubclass(type(thing), _BaseDataLoaderIter)]
    pin = {bool(thing._pin_memory) for thing in things}  # noqa: SLF001  only iterators show which DataLoaders are active
    return pin.pop() if len(pin) == 1 else None


def tries_convolutions() -> bool | None:
    """Return whether cuDNN tries its kernels for each new convolution; None where results have to be the same again."""
    cudnn: Any = torch.backends.cudnn
    return None if cudnn.deterministic or torch.are_deterministic_algorithms_enabled() else bool(cudnn.benchmark)


MAX_KINDS_KEPT = 4  # the most shapes and classes that are kept
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)  # tensors of other classes may do anything when they are asked


def unread_gradients() -> UnreadGradients:
    """Return the gradients that no code of Python has read so far: no optimizer, hook or line of the program.

    Torch makes a gradient's Python object when Python first asks for it, and keeps it as long as the tensor: a gradient
    whose object is not among those that exist was never read. Asking for it here makes it, so ask once a step.
    """
    objects = gc.get_objects()
    tensors = [thing for thing in objects if type(thing) in PLAIN_TENSORS]
    existing = set(map(id, tensors))
    leaves = [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]
    unread = [leaf for leaf in leaves if leaf.grad is not None and id(leaf.grad) not in existing]
    parameters = [tensor for tensor in unread if isinstance(tensor, torch.nn.Parameter)]
    inputs = [tensor for tensor in unread if not isinstance(tensor, torch.nn.Parameter)]
    return UnreadGradients(
        inputs=_first(tuple(tensor.shape) for tensor in sorted(inputs, key=torch.numel, reverse=True)),
        parameters=len(parameters),
        modules=_first(_owners(objects, set(map(id, parameters)))),
        elements=sum(tensor.numel() for tensor in unread),
    )


def _owners(objects: list[Any], parameters: set[int]) -> Iterator[str]:
    for module in objects:
        if issubclass(type(module), torch.nn.Module) and any(
            id(parameter) in parameters for parameter in module.parameters(False)
        ):
            yield type(module).__name__


def _first(things: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(things))[:MAX_KINDS_KEPT]


def host_memory(machine: Path = MEMINFO, cgroup: Path = CGROUP_FILE, limits: Path = CGROUP_LIMITS) -> HostMemory | None:
    """Return how much memory is pinned now, and how much the machine has.

    None if torch does not count (an old version, or a program without a GPU), if the system does not say, or if both
    contradict each other. Torch 2.11 does not subtract freed tensors from the bytes in use
    (github.com/pytorch/pytorch/pull/183067): these are left out if they are more than all pinned bytes.
    """
    stats: dict[str, int] = {}
    with suppress(RuntimeError, AttributeError):  # torch's allocator of pinned memory has no counts yet
        stats = dict(getattr(torch.cuda, "host_memory_stats", dict)())
    kinds = next((kinds for kinds in PINNED_AND_USED if all(f"{kind}.current" in stats for kind in kinds)), None)
    if kinds is None:
        return None
    pinned, used = kinds
    try:
        total, available = machine_memory(machine)
    except (OSError, KeyError):
        return None
    limit = min(_limits(cgroup, limits), default=total)
    pinned_now, in_use = stats[f"{pinned}.current"], stats[f"{used}.current"]
    with suppress(ValueError):
        return HostMemory(
            pinned_now,
            in_use if in_use <= pinned_now else None,
            stats[f"{pinned}.peak"],
            total,
            available,
            limit if limit < total else None,
        )
    return None


def _limits(cgroup: Path, limits: Path) -> Iterator[int]:
    """Yield the memory limits of this process's cgroup and its parents (version 2)."""
    with suppress(OSError, StopIteration):
        entry = next(line for line in cgroup.read_text().splitlines() if line.startswith("0::"))
        own = limits / entry.removeprefix("0::").strip("/")
        for folder in (own, *own.parents):
            with suppress(OSError, ValueError):  # no such file in the root cgroup; "max" means no limit
                yield int((folder / "memory.max").read_text())
            if folder == limits:
                break
