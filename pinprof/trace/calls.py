"""Which runtime calls can make the host wait, by name: those of CUDA, HIP and the driver."""

import numpy as np

from pinprof.trace.tables import HTOD, Activities, Bools, Calls, Int8s, Int32s, Int64s
from pinprof.trace.vendors import RUNTIME_CALL

STREAM, DEVICE, EVENT, COPY, ASYNC_COPY, MALLOC, FREE, HOST_MEMORY = range(8)
"""Kinds of calls that wait: for a stream, the device, an event, their own copy, or the staging of their copy; and calls
that allocate or free memory, which may wait."""
QUEUE_FULL, MODULE_LOAD, PROFILER, LAUNCH = range(8, 12)
"""What held up a call that does not wait by itself: a full launch queue, loading of code, the profiler's buffers, or
the kernel that it launched."""
QUEUE_DEPTH = 1022
"""Launches that a stream holds before the next one has to wait: all of 1974 full queues on an H200 held this number."""
ALLOCATING = (MALLOC, FREE, HOST_MEMORY)  # kinds of calls that allocate or free memory, of the device or pinned
KIND_OF_CALL = {
    "StreamSynchronize": STREAM,
    **dict.fromkeys(("DeviceSynchronize", "CtxSynchronize"), DEVICE),
    "EventSynchronize": EVENT,
    **dict.fromkeys(
        ("Malloc", "MallocManaged", "MallocPitch", "MallocArray", "Malloc3D", "ExtMallocWithFlags"), MALLOC
    ),
    **dict.fromkeys(("MemAlloc", "MemCreate", "MemMap"), MALLOC),
    **dict.fromkeys(("Free", "FreeArray", "MemFree", "MemUnmap", "MemRelease"), FREE),
    **dict.fromkeys(("HostAlloc", "HostMalloc", "MallocHost", "MemHostAlloc"), HOST_MEMORY),
    **dict.fromkeys(("HostRegister", "HostUnregister", "MemHostRegister", "MemHostUnregister"), HOST_MEMORY),
    **dict.fromkeys(("FreeHost", "HostFree", "MemFreeHost"), HOST_MEMORY),
}
"""The kinds of calls by name, without the vendor's prefix."""
SMALL_COPY_BYTES = 64 * 1024
"""Host-to-device copies up to this size do not block the host (CUDA C++ Programming Guide, 6.2.8.1)."""


def are_small_to_gpu(gpu: Activities, rows: Int32s | Int64s) -> Bools:
    """Return which activities are copies to the GPU so small that the driver sends them along: they never block."""
    size = gpu.bytes[rows]
    return (gpu.direction[rows] == HTOD) & (size >= 0) & (size <= SMALL_COPY_BYTES)


MAX_CALL_NAME_CHARS = 200
"""Longer names are not looked at; the longest names of driver calls have a quarter of this number of characters."""


def call_kind(name: str) -> int:
    """Return what the call of this name may wait for, -1 for a call that does not block."""
    match = RUNTIME_CALL.fullmatch(name) if len(name) <= MAX_CALL_NAME_CHARS else None
    if not match:
        return -1
    if match[1].startswith("Memcpy"):
        return ASYNC_COPY if "Async" in match[1] else COPY
    return KIND_OF_CALL.get(match[1], -1)


def call_kinds(calls: Calls) -> Int8s:
    """Return per call what it may wait for, -1 for a call that does not block."""
    return np.fromiter(map(call_kind, calls.names), np.int8, len(calls.names))[calls.name]
