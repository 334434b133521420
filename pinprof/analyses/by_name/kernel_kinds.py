"""What kernels do: products, attention, convolutions and so on, and which of these run on tensor cores.

A kernel of a collective or of an optimizer's step has that kind. The kind of others follows from the name, which a
library chose (`pinprof.trace.vendors`); if the name says nothing, from the outermost op that launched the kernel.
"""

import re
from dataclasses import dataclass

import numpy as np

from pinprof.ground.intervals import numbered
from pinprof.trace.callers import outermost_op
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.links import follow
from pinprof.trace.spans.phases import OPTIMIZER, phase_of_calls
from pinprof.trace.tables import NONE, Bools, Int64s, Trace
from pinprof.trace.vendors import (
    BY_NAME,
    COLLECTIVES,
    KERNEL_KINDS,
    OF_OPTIMIZER,
    OTHER,
    SEARCHED_CHARACTERS,
    kind_of_name,
    on_tensor_cores,
)


@dataclass(frozen=True)
class KindTime:
    """The kernels of one kind that the complete steps launched; times in ns."""

    kind: str
    count: int
    time_ns: int
    tensor_core_ns: int | None
    """The part on tensor cores, judged by names; None where the kind has no use for them, or no name
    shows it."""
    unknown_ns: int = 0
    """The part whose names do not tell; 0 where the kind has no use for tensor cores."""


def kind_of_kernels(trace: Trace, rows: Int64s) -> Int64s:
    """Return the kind of each of these kernels, as an index into `KERNEL_KINDS`."""
    gpu, launch = trace.gpu, trace.links.launch[rows]
    op = follow(outermost_op(trace, np.arange(len(trace.calls))), launch)

    def launched_by(ops: re.Pattern[str]) -> Bools:
        wanted = trace.ops.named(lambda name: ops.search(name, 0, SEARCHED_CHARACTERS))
        return (op != NONE) & np.append(wanted, False)[op]

    first, which = numbered(gpu.name[rows])
    kinds = [KERNEL_KINDS.index(kind_of_name(gpu.name_of(row))) for row in rows[first].tolist()]
    kind = np.array(kinds, np.int64)[which]
    for candidate in reversed(BY_NAME):
        number = KERNEL_KINDS.index(candidate)
        says_less = kind > number if candidate.all_of_op else kind == KERNEL_KINDS.index(OTHER)
        if candidate.ops:
            kind[launched_by(candidate.ops) & says_less] = number
    kind[follow(phase_of_calls(trace).astype(np.int32), launch) == OPTIMIZER] = KERNEL_KINDS.index(OF_OPTIMIZER)
    kind[is_collective_kernel(gpu)[rows]] = KERNEL_KINDS.index(COLLECTIVES)
    return kind


def times_of_kinds(trace: Trace, rows: Int64s, kind: Int64s) -> tuple[KindTime, ...]:
    """Return the time of these kernels by kind, the costliest kind first; `kind` is what `kind_of_kernels` returns."""
    time = trace.gpu.duration_ns[rows]
    first, which = numbered(trace.gpu.name[rows])
    works = [on_tensor_cores(trace.gpu.name_of(row)) for row in rows[first].tolist()]
    on, unknown = (np.array([of_name is state for of_name in works], bool)[which] for state in (True, None))
    times = []
    for number in np.unique(kind).tolist():
        of_kind, used = kind == number, KERNEL_KINDS[number].multiplies
        on_ns, unknown_ns = (int(time[of_kind & part].sum()) if used else 0 for part in (on, unknown))
        is_known = used and (on_ns > 0 or unknown_ns == 0)
        whole = int(of_kind.sum()), int(time[of_kind].sum())
        times.append(KindTime(KERNEL_KINDS[number].name, *whole, on_ns if is_known else None, unknown_ns))
    return tuple(sorted(times, key=lambda of_kind: -of_kind.time_ns))
