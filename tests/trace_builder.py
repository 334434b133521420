"""Writes a small Kineto trace by hand, in microseconds, so that expected numbers can be checked by eye."""

import gzip
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pinprof.trace import Trace, read_trace

MAIN, AUTOGRAD = 100, 101
"""Thread ids of the host; the process is MAIN too."""
COMPUTE, SIDE = 7, 20
"""Streams."""
LAUNCH_US = 2
"""Length of a call that launches something, unless given."""
_FOLDER = TemporaryDirectory(prefix="pinprof-traces-")
_NUMBERS = count()


class TraceBuilder:
    """Events of one process on one or more GPUs; times are µs from the start of the trace."""

    def __init__(self, base_us: float = 1_000_000.0) -> None:
        self.base_us = base_us
        self.events: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {"schemaVersion": 1}
        self._correlation = 0

    def event(self, category: str, name: str, start: float, duration: float, **args: Any) -> dict[str, Any]:
        """Add any duration event of the main thread and return it, to be changed at will."""
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": MAIN,
            "tid": MAIN,
            "ts": self.base_us + start,
            "dur": duration,
            "args": args,
        }
        self.events.append(event)
        return event

    def on_thread(self, thread: int, category: str, name: str, start: float, duration: float, **args: Any) -> None:
        """Add a duration event of another host thread."""
        self.event(category, name, start, duration, **args)["tid"] = thread

    def op(self, name: str, start: float, duration: float, *, thread: int = MAIN) -> None:
        """Add an op."""
        self.on_thread(thread, "cpu_op", name, start, duration)

    def function(self, name: str, start: float, duration: float, *, thread: int = MAIN) -> None:
        """Add a Python function."""
        self.on_thread(thread, "python_function", name, start, duration)

    def step(self, number: int, start: float, duration: float) -> None:
        """Add the profiler's mark of a training step."""
        self.event("user_annotation", f"ProfilerStep#{number}", start, duration)

    def steps(self, count: int, period: int = 1000, *, length: int | None = None) -> Iterator[int]:
        """Mark steps one after the other, which end 10 µs before the next unless given; yield the start of each."""
        for number in range(count):
            self.step(number, period * number, period - 10 if length is None else length)
            yield period * number

    def call(
        self, name: str, start: float, duration: float, *, thread: int = MAIN, correlation: int | None = None
    ) -> int:
        """Add a runtime call and return its correlation."""
        if correlation is None:
            self._correlation += 1
            correlation = self._correlation
        self.on_thread(thread, "cuda_runtime", name, start, duration, correlation=correlation)
        return correlation

    def activity(
        self,
        category: str,
        name: str,
        start: float,
        duration: float,
        *,
        correlation: int,
        device: int,
        stream: int,
        **args: Any,
    ) -> None:
        """Add a GPU activity without a launch."""
        args |= {"correlation": correlation, "device": device, "stream": stream}
        self.event(category, name, start, duration, **args).update(pid=device, tid=stream)

    def kernel(
        self,
        start: float,
        duration: float,
        *,
        launch: float,
        name: str = "gemm",
        stream: int = COMPUTE,
        device: int = 0,
        thread: int = MAIN,
    ) -> None:
        """Add a kernel and the call that launched it."""
        correlation = self.call("cudaLaunchKernel", launch, LAUNCH_US, thread=thread)
        self.activity("kernel", name, start, duration, correlation=correlation, device=device, stream=stream)

    def collective(
        self,
        start: float,
        duration: float,
        *,
        launch: float,
        called: str = "allreduce",
        group: str = "[0, 1]",
        stream: int = COMPUTE,
        message: tuple[str, int, int, int] | None = None,
    ) -> None:
        """Add the kernel of a collective and the call that launched it; without a name for it as old versions do.

        A `message` is its type, its elements in and out, and the number of ranks.
        """
        correlation = self.call("cudaLaunchKernelExC", launch, LAUNCH_US)
        args: dict[str, Any] = {"Collective name": called, "Process Group Ranks": group} if called else {}
        args |= dict(zip(("dtype", "In msg nelems", "Out msg nelems", "Group size"), message or (), strict=False))
        name = "ncclDevKernel_SendRecv" if called in {"send", "recv"} else "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        self.activity("kernel", name, start, duration, correlation=correlation, device=0, stream=stream, **args)

    def copy(
        self,
        kind: str,
        start: float,
        duration: float,
        *,
        launch: float,
        call: float = LAUNCH_US,
        size: int = 1_000_000,
        stream: int = COMPUTE,
        device: int = 0,
    ) -> None:
        """Add a copy, `kind` as in `HtoD (Pageable -> Device)`, and the asynchronous call that made it."""
        correlation = self.call("cudaMemcpyAsync", launch, call)
        name = f"Memcpy {kind}"
        self.activity(
            "gpu_memcpy", name, start, duration, correlation=correlation, device=device, stream=stream, bytes=size
        )

    def memory(
        self, at: float, allocated: int, reserved: int = 0, *, device: int | None = 0, thread: int = MAIN
    ) -> dict[str, Any]:
        """Add what torch's allocator holds after an allocation or release, as `profile_memory` does; None is the host.

        Kineto writes it in `ChromeTraceLogger::handleGenericInstantEvent`, with the args of `MetadataFieldCatalog.h`.
        """
        args = {"Total Reserved": reserved, "Total Allocated": allocated, "Bytes": 512, "Addr": 140_000_000_000_000}
        args |= {"Device Id": -1, "Device Type": 0} if device is None else {"Device Id": device, "Device Type": 1}
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": MAIN, "tid": thread}
        event |= {"ts": self.base_us + at, "args": args}
        self.events.append(event)
        return event

    def overhead(self, name: str, start: float, duration: float) -> None:
        """Add a cost of CUPTI, which says neither on which thread nor in which call."""
        event = self.event("overhead", name, start, duration)
        event |= {"pid": -1, "tid": 0}
        del event["args"]

    def document(self) -> dict[str, Any]:
        """Return the trace as torch's exporter lays it out."""
        return {**self.metadata, "traceEvents": self.events}

    def write(self, path: Path) -> Path:
        """Write the trace, compressed if the name says so, and return the path."""
        data = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
        return path

    def read(self) -> Trace:
        """Return the trace as pinprof reads it from a file that stays, as parts of it are read later."""
        return read_trace(self.write(Path(_FOLDER.name) / f"{next(_NUMBERS)}.json"))


def without_known_events() -> TraceBuilder:
    """Return a trace whose only event is of a kind that pinprof does not know, so that all tables are empty."""
    builder = TraceBuilder()
    builder.event("gpu_pm_counter", "x", 0, 1)
    return builder
