"""Training steps whose cost is understood, with what a profiler must say about each."""

from dataclasses import dataclass
from functools import partial

from pinprof.errors import PinprofError
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
    Workload(
        "pin_then_copy",
        "batch.pin_memory().to(device, non_blocking=True) in the main thread",
        "HtoD pinned, nothing overlapped; pinning costs the host a copy of the batch in every step",
        pin_then_copy,
    ),
    Workload(
        "prefetch",
        "the next pinned batch is copied on a side stream while this one is trained on",
        "HtoD pinned, (nearly) all overlapped; as fast as clean",
        prefetch,
    ),
    Workload(
        "loss_item",
        "loss.item() in every step, no other host work",
        "a long stall that is worth little: the GPU is busy all through it; removing it saves the relaunch bubble only",
        loss_item,
    ),
    Workload(
        "loss_item_host_work",
        "loss.item() in every step, then 3 ms of host work",
        "without the wait the 3 ms overlap the GPU's work: removing it saves about 3 ms a step",
        loss_item_host_work,
    ),
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
    Workload(
        "mask_loss",
        "the loss over output[mask] with a boolean mask",
        "hidden waits at the indexing lines (aten::nonzero), also in backward; no copy of a batch",
        mask_loss,
    ),
    Workload(
        "readback_blocking",
        "output.cpu() in every step (16 MiB)",
        "DtoH pageable, nothing overlapped; the host waits for the whole step and the copy",
        readback_blocking,
    ),
    Workload(
        "readback_async",
        "the output copied to pinned memory on a side stream, read one step later",
        "DtoH pinned, overlapped with the next step's kernels; the GPU never runs out of work",
        readback_async,
    ),
    Workload(
        "empty_cache",
        "torch.cuda.empty_cache() in every step",
        "cudaFree and cudaMalloc in every step; the host waits for the GPU in each cudaFree",
        empty_cache,
    ),
    Workload("clean", "data on the device, no wait", "bound by the GPU, no idle time, nothing to find", clean),
    Workload(
        "small_kernels",
        "hundreds of tiny operations, no wait",
        "bound by the host: the GPU is idle between kernels, and no wait or copy is to blame",
        small_kernels,
    ),
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
