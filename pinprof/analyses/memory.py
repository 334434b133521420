"""The memory that torch's allocator held on each GPU, where it was recorded (`profile_memory=True`)."""

import re
from dataclasses import dataclass

import numpy as np

from pinprof.trace.links import enclosing, step_at
from pinprof.trace.spans.step_names import numbers_of_steps
from pinprof.trace.tables import NONE, HostEvents, Int64s, Trace

ALLOCATION = re.compile(r"aten::(empty|zeros|ones|full|new_empty|resize|to|_to_copy|clone|contiguous)(_|$)")
"""Ops that allocate memory for the op that calls them."""


@dataclass(frozen=True)
class MemoryPeak:
    """The most memory that was allocated on a GPU in the recording, and where that was first reached."""

    device: int
    allocated_bytes: int  # the memory that tensors held at the peak
    reserved_bytes: int | None
    """The most that the allocator took from the GPU in the recording; None where that was not recorded."""
    step: int | None  # the number of the step of the peak; None where it was in no step
    step_fraction: float | None  # the part of that step that had passed at the peak
    op: str | None  # the innermost op at the peak that does more than allocate memory


def measure_memory(trace: Trace) -> tuple[MemoryPeak, ...]:
    """Return the peak of each GPU, in the order of their numbers; nothing where no memory was recorded."""
    return tuple(_peak(trace, device, rows) for device, rows in trace.memory.of_gpu.items())


def _peak(trace: Trace, device: int, rows: Int64s) -> MemoryPeak:
    memory, steps = trace.memory, trace.steps
    row = rows[memory.allocated[rows].argmax()]
    at_ns, reserved = memory.at_ns[[row]], int(memory.reserved[rows].max())
    step = int(step_at(steps, at_ns)[0]) if steps.on_host else NONE
    passed = (at_ns[0] - steps.start_ns[step]) / (steps.end_ns[step] - steps.start_ns[step]) if step != NONE else None
    return MemoryPeak(
        device,
        allocated_bytes=int(memory.allocated[row]),
        reserved_bytes=None if reserved == NONE else reserved,
        step=None if step == NONE else int(numbers_of_steps(trace)[step]),
        step_fraction=None if passed is None else float(passed),
        op=_op_at(trace, at_ns, int(memory.thread[row])),
    )


def _op_at(trace: Trace, at_ns: Int64s, thread: int) -> str | None:
    ops = trace.ops
    moment = HostEvents(ops.names, at_ns, at_ns, np.zeros(1, np.int32), np.full(1, thread, np.int32))
    op = int(enclosing(ops, moment)[0]) if thread != NONE else NONE
    inner = op
    while op != NONE and ALLOCATION.match(ops.name_of(op)):
        op = int(trace.links.op_parent[op])
    named = inner if op == NONE else op
    return None if named == NONE else ops.name_of(named)
