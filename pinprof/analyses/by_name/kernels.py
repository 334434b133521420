"""The time that GPUs spend in kernels: by name, with the ops and lines that launch them; and by what they do.

A kernel of a collective or of an optimizer's step has that kind. The kind of others follows from the name, which a
library chose (`pinprof.trace.vendors`); if the name says nothing, from the outermost op that launched the kernel.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from pinprof.analyses.by_name.names import LONGEST_KEPT_NAME_CHARS, NamedRows, Origin, Origins, by_name
from pinprof.ground.intervals import length, numbered
from pinprof.ground.units import shortened
from pinprof.trace.callers import calling_function, outermost_op
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.links import follow
from pinprof.trace.sources import Sources
from pinprof.trace.spans.phases import OPTIMIZER, phase_of_calls
from pinprof.trace.tables import KERNEL, NONE, Bools, Int32s, Int64s, Trace
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
    unknown_ns: int = 0  # the part whose names do not tell; 0 where the kind has no use for tensor cores


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


MAX_STREAMS_PER_KERNEL = 8  # streams of a kernel that are kept: those in which it runs longest


class GpuStream(NamedTuple):
    """A stream of a GPU."""

    device: int
    stream: int


@dataclass(frozen=True)
class KernelTime:
    """The kernels of one name that the complete steps launched; times in ns."""

    name: str
    count: int
    time_ns: int
    kind: str  # what they do, one of `KERNEL_KINDS`; if they are of several kinds, the one with most time
    communication: bool  # whether they are kernels of collectives, whose time includes waits for other ranks
    lanes: tuple[GpuStream, ...]  # where they run, the stream with most time first
    op: str | None
    """The outermost op, without autograd's nodes, that launches most of their time; None where no op does."""
    origin: Origin


@dataclass(frozen=True)
class KernelSums:
    """The kernels that the complete steps launched; times in ns."""

    rows: tuple[KernelTime, ...]  # the costliest names
    kinds: tuple[KindTime, ...]  # all kernels by what they do, the costliest kind first
    names: int  # how many names there are
    left_ns: int  # time of the names that are left out
    time_ns: int  # time of all kernels, each by itself
    busy_ns: int
    """How long GPUs work on what the complete steps launched, copies and memsets with it; the sum of all GPUs."""
    devices: int  # how many GPUs run kernels


def measure_kernels(trace: Trace, sources: Sources) -> KernelSums:
    """Return the kernels of the complete steps by name."""
    gpu = trace.gpu
    inside = trace.steps.holds(trace.links.activity_step)
    rows = np.flatnonzero(inside & (gpu.category == KERNEL))
    time = gpu.duration_ns[rows]
    names = by_name(gpu, rows, time)
    of_collectives = names.sums(is_collective_kernel(gpu)[rows].astype(np.int64)) > 0
    kind = kind_of_kernels(trace, rows)
    kind_of_name, _ = names.leading(kind.astype(np.int32), time)
    lanes, ops, origins = _lanes(trace, names, rows), *_launchers(trace, names, rows, sources)
    kernels = (
        KernelTime(
            shortened(gpu.names[names.codes[index]], LONGEST_KEPT_NAME_CHARS),
            int(names.count[index]),
            int(names.time_ns[index]),
            KERNEL_KINDS[kind_of_name[index]].name,
            bool(of_collectives[index]),
            lanes[index],
            ops[index],
            origins[index],
        )
        for index in names.kept
    )
    return KernelSums(
        tuple(kernels),
        times_of_kinds(trace, rows, kind),
        len(names.codes),
        names.left_ns,
        int(time.sum()),
        sum(length(gpu.times(on_device[inside[on_device]])) for on_device in gpu.of_device.values()),
        len(np.unique(gpu.device[rows])),
    )


def _launchers(trace: Trace, names: NamedRows, rows: Int64s, sources: Sources) -> tuple[list[str | None], list[Origin]]:
    time, launch = trace.gpu.duration_ns[rows], trace.links.launch[rows]
    first, which = numbered(launch)  # a graph launch has many kernels
    calls = launch[first]
    launching = calls[calls != NONE].astype(np.int64)

    def of_rows(of_call: Int32s) -> Int32s:
        """Return the value of each row's launch; rows without a launch, which come first, have none."""
        return np.concatenate((np.full(len(calls) - len(launching), NONE, np.int32), of_call))[which]

    op, _ = names.leading(of_rows(follow(trace.ops.name, outermost_op(trace, launching))), time)
    called = [
        shortened(trace.ops.names[op[kept]], LONGEST_KEPT_NAME_CHARS) if op[kept] != NONE else None
        for kept in names.kept
    ]
    return called, Origins(trace, of_rows(calling_function(trace, launching)), sources).of(names, time)


def _lanes(trace: Trace, names: NamedRows, rows: Int64s) -> list[tuple[GpuStream, ...]]:
    gpu = trace.gpu
    first = [on_stream[0] for on_stream in gpu.of_stream]
    lanes = [GpuStream(*key) for key in zip(gpu.device[first].tolist(), gpu.stream[first].tolist(), strict=True)]
    number = np.full(len(gpu), NONE, np.int64)
    for lane, on_stream in enumerate(gpu.of_stream):
        number[on_stream] = lane
    width = len(lanes) + 1
    pairs, pair = np.unique(names.which * width + number[rows], return_inverse=True)
    time = np.bincount(pair, gpu.duration_ns[rows], minlength=len(pairs))
    pairs = pairs[np.lexsort((-time, pairs // width))]
    begin = np.searchsorted(pairs // width, np.arange(len(names.codes) + 1)).tolist()
    of_name = (pairs[start:end][:MAX_STREAMS_PER_KERNEL] % width for start, end in pairwise(begin))
    return [tuple(lanes[lane] for lane in on_stream.tolist()) for on_stream in islice(of_name, len(names.kept))]


SAME_KERNELS_SHARE = 0.8
"""Two traces are of one program if at least this share of their kernels is equal: a fix may remove some kernels."""


def kernels_alike(before: Trace, after: Trace) -> float:
    """Return the share of the kernels of a complete step that both traces have, by name; 1 if there are no kernels."""
    old, new = _kernels_per_step(before), _kernels_per_step(after)
    names = {*old, *new}
    both = sum(min(old.get(name, 0.0), new.get(name, 0.0)) for name in names)
    either = sum(max(old.get(name, 0.0), new.get(name, 0.0)) for name in names)
    return both / either if either else 1.0


def _kernels_per_step(trace: Trace) -> dict[str, float]:
    """Return how often per step each kernel runs, by name."""
    rows = np.flatnonzero((trace.gpu.category == KERNEL) & trace.steps.holds(trace.links.activity_step))
    steps = max(int(trace.steps.complete.sum()), 1)
    return {name: count / steps for name, count in Counter(map(trace.gpu.name_of, rows.tolist())).items()}
