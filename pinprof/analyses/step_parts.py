"""How the time of steps divides on each GPU (kernels, copies, both, or nothing), and how long collectives take.

A copy within the GPU's own memory counts as a kernel.
"""

from dataclasses import dataclass

import numpy as np

from pinprof.ground.intervals import covered, intersect, length, subtract
from pinprof.trace.collectives import Collectives, collectives_of, is_collective_kernel
from pinprof.trace.links import NO_WORK_NS, work_ends
from pinprof.trace.tables import KERNEL, MEMCPY, NONE, Bools, Int64s, Trace


@dataclass(frozen=True)
class StepParts:
    """The complete steps of one device; times in ns, one entry per step, and the parts add up to `length_ns`."""

    device: int
    step: Int64s  # indices into `Trace.steps`
    length_ns: Int64s  # from the end of the GPU work of the step before to the end of its own
    compute_ns: Int64s  # kernels run, and no copy
    both_ns: Int64s
    copy_ns: Int64s  # copies run, and no kernel
    memset_ns: Int64s  # only memsets run
    idle_ns: Int64s
    collective_ns: Int64s
    """The part of `compute_ns` in which only kernels of collectives run; they may mostly wait for other ranks."""


@dataclass(frozen=True)
class MeanStep:
    """The mean of the complete steps on one device, without the profiler; times in ns, which add up to `length_ns`.

    The work is what these steps launched, as recorded: a profiler slows the host, not the GPU. The rest of the step is
    idle time. The recorded work can be longer than the step, as a profiled host stages copies of pageable memory more
    slowly; then `length_ns` is the length of the work.
    """

    device: int
    compute_ns: float  # kernels run, and no copy
    both_ns: float
    copy_ns: float  # copies run, and no kernel: the exposed copy time
    memset_ns: float  # only memsets run
    idle_ns: float
    collective_ns: float = 0.0  # the part of `compute_ns` in which no kernels run but those of collectives

    @property
    def work_ns(self) -> float:
        """The time in which the device works."""
        return self.compute_ns + self.both_ns + self.copy_ns + self.memset_ns

    @property
    def length_ns(self) -> float:
        """The whole step."""
        return self.work_ns + self.idle_ns


def measure_mean(trace: Trace, copies: Int64s, exposed_ns: Int64s, step_ns: float) -> tuple[MeanStep, ...]:
    """Return how a mean step of `step_ns` divides on each device.

    `copies` are rows of `Trace.gpu`: the copies that count. `exposed_ns` is the exposed time of each.
    """
    is_of_steps = trace.steps.holds(trace.links.activity_step) & (trace.gpu.category != MEMCPY)
    is_of_steps[copies] = trace.steps.holds(trace.links.activity_step[copies])
    count = int(trace.steps.complete.sum())
    if not is_of_steps.any():
        return ()
    means = []
    exposed = np.zeros(len(trace.gpu), np.int64)
    exposed[copies] = exposed_ns
    for device, rows in trace.gpu.of_device.items():
        working = rows[is_of_steps[rows]]
        compute, both, copy, memset, in_collectives = (
            time / count for time in _parts_of_work(trace, working, int(exposed[working].sum()))
        )
        idle = max(step_ns - compute - both - copy - memset, 0.0)
        means.append(MeanStep(device, compute, both, copy, memset, idle, in_collectives))
    return tuple(means)


def _parts_of_work(trace: Trace, rows: Int64s, exposed_ns: int) -> tuple[int, int, int, int, int]:
    """Return the time of kernels alone, of both, of copies alone and of memsets alone, and that of collectives alone.

    `rows` are of one device. The time of collectives alone is a part of the time of kernels alone.
    """
    gpu = trace.gpu

    def time(chosen: Bools) -> int:
        return length(gpu.times(rows[chosen]))

    is_kernel, is_copy = gpu.is_compute[rows], gpu.is_transfer[rows]
    kernels = time(is_kernel)
    both = min(max(time(is_copy) - exposed_ns, 0), kernels)
    memset = time(np.ones(len(rows), bool)) - time(is_kernel | is_copy)
    in_collectives = kernels - time(is_kernel & ~is_collective_kernel(gpu)[rows])
    return kernels - both, both, exposed_ns, memset, min(in_collectives, kernels - both)


def measure_parts(trace: Trace) -> tuple[StepParts, ...]:
    """Return how the complete steps divide on each device that works for them.

    A host that runs ahead starts steps long before the GPU does, so only the ends of their GPU work divide its time.
    The beginning of the first step is thus unknown: that step is left out, or, if it is the only one, counts from its
    first work.
    """
    return tuple(parts for device in trace.gpu.of_device if len((parts := _of_device(trace, device)).step))


def _of_device(trace: Trace, device: int) -> StepParts:
    gpu = trace.gpu
    on_device, kernel_rows = gpu.of_device[device], gpu.on(device, gpu.is_compute)
    step, start, end = step_windows(trace, on_device)
    kernels, copies = gpu.times(kernel_rows), gpu.times(gpu.on(device, gpu.is_transfer))
    compute, copy, both, busy = (
        covered(active, start, end) for active in (kernels, copies, intersect(kernels, copies), gpu.times(on_device))
    )
    computing = gpu.times(kernel_rows[~is_collective_kernel(gpu)[kernel_rows]])
    return StepParts(
        device=device,
        step=step,
        length_ns=end - start,
        compute_ns=compute - both,
        both_ns=both,
        copy_ns=copy - both,
        memset_ns=busy - compute - copy + both,
        idle_ns=end - start - busy,
        collective_ns=covered(subtract(subtract(kernels, copies), computing), start, end),
    )


def step_windows(trace: Trace, rows: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the complete steps with work on a device, and when each begins (as the step before ends) and ends.

    `rows` are the rows of the device in `Trace.gpu`. The beginning of the first step with work is unknown: that step is
    left out, unless it is the only one.
    """
    step, start, end = steps_on_gpu(trace, rows)
    first = trace.links.activity_step[rows]
    windows_known = slice(1 if len(step) > 1 and step[0] == first[first != NONE].min() else 0, None)
    return step[windows_known], start[windows_known], end[windows_known]


def steps_on_gpu(trace: Trace, rows: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the same as `step_windows`, with the first step from its first work on."""
    gpu, step = trace.gpu, trace.links.activity_step[rows]
    if not (step != NONE).any():
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    ends = work_ends(trace, rows)
    working = np.flatnonzero(ends != NO_WORK_NS)
    end = np.maximum.accumulate(ends[working])
    first = gpu.start_ns[rows][step == working[0]].min()
    start = np.concatenate(([first], end[:-1]))
    kept = trace.steps.complete[working] & (end > start)
    return working[kept], start[kept], end[kept]


@dataclass(frozen=True)
class Communication:
    """Collectives of one rank in its complete steps; times in ns."""

    collectives: Collectives
    steps_ns: Int64s  # when each step that was recorded whole begins
    time_ns: int  # the time in which a kernel of a collective runs, waits for other ranks included
    exposed_ns: int  # the part of it in which no other kernel runs on the device


def measure_communication(trace: Trace) -> Communication:
    """Return the collectives of a trace and their time; sends and receives count for the time only."""
    gpu = trace.gpu
    inside = (gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step)
    of_collectives = is_collective_kernel(gpu)
    time = exposed = 0
    kinds = inside & of_collectives, ~of_collectives & (gpu.category == KERNEL)
    for on_device in gpu.of_device.values():
        rows, others = (on_device[kind[on_device]] for kind in kinds)
        communicating = gpu.times(rows)
        computing = gpu.times(others)
        time += length(communicating)
        exposed += length(communicating) - int(covered(computing, communicating.start, communicating.end).sum())
    whole = np.flatnonzero(trace.steps.whole)
    return Communication(collectives_of(trace, whole.tolist()), trace.steps.start_ns[whole], time, exposed)
