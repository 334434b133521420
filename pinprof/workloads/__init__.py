"""Training steps whose cost is understood, with what a profiler must say about each."""

from dataclasses import dataclass
from functools import partial

from pinprof.ground.errors import PinprofError
from pinprof.workloads.copies import copied, overlap_case, pin_then_copy, prefetch
from pinprof.workloads.loaders import loaded
from pinprof.workloads.model import Build
from pinprof.workloads.readback import readback_async, readback_blocking
from pinprof.workloads.waits import clean, empty_cache, loss_item, loss_item_host_work, mask_loss, small_kernels


@dataclass(frozen=True)
class Workload:
    """A training step whose cost is understood: what it does, and what a profiler must say about it."""

    name: str
    summary: str
    known_answer: str
    build: Build


class UnknownWorkloadError(PinprofError, ValueError):
    """No workload has this name."""


def _of(build: Build, known_answer: str) -> Workload:
    """Return the workload of a function, which says by its name and the first line of its docstring what it does."""
    summary = (build.__doc__ or "").partition("\n")[0].removesuffix(".")
    return Workload(getattr(build, "__name__", ""), summary[:1].lower() + summary[1:], known_answer, build)


WORKLOADS = (
    Workload(
        "pageable_blocking",
        "batch.to(device) from pageable memory, default stream",
        "HtoD pageable, nothing overlapped; the host waits for the whole queue and then stages the copy itself",
        partial(copied, pinned=False, non_blocking=False),
    ),
    Workload(
        "pageable_non_blocking",
        "batch.to(device, non_blocking=True) from pageable memory, default stream",
        "HtoD pageable, nothing overlapped; the call still blocks the host: as slow as pageable_blocking",
        partial(copied, pinned=False, non_blocking=True),
    ),
    Workload(
        "pinned_blocking",
        "batch.to(device) from pinned memory, default stream",
        "HtoD pinned at full link speed, nothing overlapped (same stream); the host waits for the queue and the copy",
        partial(copied, pinned=True, non_blocking=False),
    ),
    Workload(
        "pinned_non_blocking",
        "batch.to(device, non_blocking=True) from pinned memory, default stream",
        "HtoD pinned, the host does not wait; nothing overlapped, because the copy queues with the kernels",
        partial(copied, pinned=True, non_blocking=True),
    ),
    _of(pin_then_copy, "HtoD pinned, nothing overlapped; pinning costs the host a copy of the batch in every step"),
    _of(prefetch, "HtoD pinned, (nearly) all overlapped; as fast as clean"),
    _of(
        loss_item,
        "a long stall that is worth little: the GPU is busy all through it; removing it saves the relaunch bubble only",
    ),
    _of(loss_item_host_work, "without the wait the 3 ms overlap the GPU's work: removing it saves about 3 ms a step"),
    Workload(
        "loader_pageable",
        "DataLoader with 2 workers, pin_memory=False, non_blocking=True",
        "HtoD pageable; non_blocking has no effect; pin_memory=True in the loader is the cure",
        partial(loaded, pinned=False),
    ),
    Workload(
        "loader_pinned",
        "DataLoader with 2 workers, pin_memory=True, non_blocking=True",
        "HtoD pinned, the host does not wait; nothing overlapped (same stream)",
        partial(loaded, pinned=True),
    ),
    _of(mask_loss, "hidden waits at the indexing lines (aten::nonzero), also in backward; no copy of a batch"),
    _of(readback_blocking, "DtoH pageable, nothing overlapped; the host waits for the whole step and the copy"),
    _of(readback_async, "DtoH pinned, overlapped with the next step's kernels; the GPU never runs out of work"),
    _of(empty_cache, "cudaFree and cudaMalloc in every step; the host waits for the GPU in each cudaFree"),
    _of(clean, "bound by the GPU, no idle time, nothing to find"),
    _of(small_kernels, "bound by the host: the GPU is idle between kernels, and no wait or copy is to blame"),
    *(
        Workload(
            f"overlap_{stream}_{memory}",
            f"a copy of 20 MiB along with kernels: {stream} stream, {memory} memory (E4)",
            f"HtoD {memory}, {answer}",
            partial(overlap_case, case=f"{stream} stream, {memory}"),
        )
        for stream, memory, answer in (
            (
                *("default", "pageable"),
                "nothing overlapped: the call holds the host until the copy is staged, then the kernels come",
            ),
            ("default", "pinned", "nothing overlapped: the kernels queue behind the copy on its stream"),
            ("side", "pageable", "(nearly) nothing overlapped: the kernels are launched when the copy is staged"),
            ("side", "pinned", "overlapped except for its beginning, before the first kernel is launched"),
        )
    ),
)


def workload(name: str) -> Workload:
    """Return the workload of this name."""
    for candidate in WORKLOADS:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in WORKLOADS)
    raise UnknownWorkloadError(f"no workload is named {name!r}; there are {names}")
