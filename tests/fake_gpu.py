"""A GPU of plain objects: streams are queues, a copy has ended when its stream has run, and nothing is copied.

Device memory is of torch's device `meta`, or one of the tensors of the host that `device_tensor` has made.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pinprof.program.waits import SYNC_WARNING
from pinprof.races.clocks import Stream
from pinprof.races.gpu import Gpu
from pinprof.races.torch_ops import parts


def line_of(program: Callable[..., object], mark: str) -> int:
    """Return the number of the one line of a function that has a comment with this mark."""
    lines, first = inspect.getsourcelines(program)
    (number_of_line,) = (number for number, line in enumerate(lines, first) if f"# {mark}" in line)
    return number_of_line


class FakeStream:
    """A stream that runs only when somebody waits for it, or `run()` is called."""

    def __init__(self, gpu: "FakeGpu", handle: int) -> None:
        self.gpu, self.cuda_stream, self.device_index = gpu, handle, 0
        self.queued = 0
        self.ran = 0

    def run(self) -> None:
        self.ran = self.queued

    def synchronize(self) -> None:
        warnings.warn(SYNC_WARNING, stacklevel=1)  # torch warns here as it does of all waits
        self.run()

    def query(self) -> bool:
        return self.ran == self.queued

    def wait_stream(self, other: "FakeStream") -> None:
        event = self.gpu.cuda.Event()
        event.record(other)
        event.wait(self)


class FakeGenericStream(FakeStream):
    """The same stream as an object of torch's own class, whose methods are written in C and call no others."""

    def __init__(self, stream: FakeStream, device: str = "meta") -> None:
        super().__init__(stream.gpu, stream.cuda_stream)
        self.stream, self.device = stream, torch.device(device)

    def synchronize(self) -> None:
        self.stream.run()

    def query(self) -> bool:
        return self.stream.query()

    def record_event(self, event: Any = None) -> Any:
        event = event or self.gpu.generic.Event()
        event.stand_for(self.stream)
        return event

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, other: FakeStream) -> None:
        pass


def _events(gpu: "FakeGpu") -> tuple[Any, Any]:
    """Return the classes of a GPU's events: torch's own, and that of torch.cuda."""

    class GenericEvent:
        """An event as one of torch's own class is."""

        handles = iter(range(1, 1000))

        def __init__(self, device: str = "meta") -> None:
            self.device, self.event_id = torch.device(device), 0
            self.behind: list[tuple[FakeStream, int]] = []

        def stand_for(self, stream: FakeStream) -> None:
            self.event_id = self.event_id or next(self.handles)
            self.behind = [(stream, stream.queued)]

        def record(self, stream: FakeStream | None = None) -> None:
            self.stand_for(stream or gpu.current)

        def wait(self, stream: FakeStream | None = None) -> None:
            pass

        def synchronize(self) -> None:
            for stream, queued in self.behind:
                stream.ran = max(stream.ran, queued)

        def query(self) -> bool:
            return all(stream.ran >= queued for stream, queued in self.behind)

        def elapsed_time(self, other: "GenericEvent") -> float:
            return float(other.event_id - self.event_id)

    class Event(GenericEvent):
        """An event as one of torch.cuda is."""

        @property
        def cuda_event(self) -> int:
            return self.event_id

    return GenericEvent, Event


class FakeGpu(Gpu):
    """What the guard asks of a GPU, with `cuda`, `generic` and `c` in place of `torch.cuda`, `torch` and `torch._C`."""

    def __init__(self) -> None:
        self.streams = [FakeStream(self, 0)]
        self.current = self.streams[0]
        self.capturing = False
        self.pageable: set[int] = set()
        self._owned: set[int] = set()
        self.sync_debug_mode = 0
        gpu = self
        generic_events, events = _events(gpu)

        class OwnStream(FakeStream):
            def __init__(self) -> None:
                super().__init__(gpu, len(gpu.streams))
                gpu.streams.append(self)

        self.stream_class = OwnStream
        self.cuda: Any = SimpleNamespace(
            Event=events,
            Stream=FakeStream,
            get_sync_debug_mode=lambda: self.sync_debug_mode,
            set_sync_debug_mode=self._set_mode,
        )
        self.generic: Any = SimpleNamespace(Event=generic_events, Stream=FakeGenericStream)
        self._cudart = SimpleNamespace(
            cudaHostRegister=lambda _address, _size, _flags: 0, cudaHostUnregister=lambda _address: 0
        )
        self.c: Any = SimpleNamespace(_cuda_synchronize=self._run_all, _cuda_getDevice=lambda: 0, _cudart=self._cudart)

    def _set_mode(self, mode: Any) -> None:
        self.sync_debug_mode = {"warn": 1}.get(mode, mode)

    def _run_all(self) -> None:
        for stream in self.streams:
            stream.run()

    # For the tests

    def stream(self) -> FakeStream:
        return self.stream_class()

    @contextmanager
    def on(self, stream: FakeStream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def device_tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.taken_over(torch.ones(shape, dtype=dtype))

    def taken_over(self, tensor: Tensor) -> Tensor:
        self._owned.update(part.untyped_storage().data_ptr() for part in parts(tensor))
        self._keep = (*getattr(self, "_keep", ()), tensor)
        return tensor

    def pageable_tensor(self, *shape: int) -> Tensor:
        tensor = torch.ones(shape)
        self.pageable.add(tensor.data_ptr())
        return tensor

    def synchronize(self) -> None:
        self.c._cuda_synchronize()

    def item(self) -> None:
        """Wait as `x.item()` of a tensor on the device does."""
        self.current.run()
        warnings.warn(SYNC_WARNING, stacklevel=1)

    # What the guard asks

    def is_there(self) -> bool:
        return True

    def owns(self, where: torch.device | Tensor) -> bool:
        device = where.device if isinstance(where, Tensor) else where
        if device.type == "meta":
            return True
        return isinstance(where, Tensor) and any(
            part.untyped_storage().data_ptr() in self._owned for part in parts(where)
        )

    def is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() not in self.pageable

    def current_stream(self, device: int | None) -> Stream:
        assert not device
        return Stream(0, self.current.cuda_stream)

    def is_capturing(self) -> bool:
        return self.capturing

    def mark(self, device: int | None) -> Callable[[], bool]:
        assert not device
        stream = self.current
        stream.queued += 1
        number = stream.queued
        return lambda: stream.ran >= number
