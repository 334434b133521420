from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builder import COMPUTE, SIDE, TraceBuilder
from trace_parts import Part, built, copy, kernel

from pinprof.analyses.copies import Overlap, _exposed, _kernels_were_queued, measure_overlap
from pinprof.ground.intervals import Intervals, length, subtract, union
from pinprof.measurement.figures import EXPOSED_MS
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import OverlapSums, Profile
from pinprof.measurement.trust.doubt import Known
from pinprof.trace.tables import KERNEL

PINNED = "HtoD (Pinned -> Device)"


def overlap_of(builder: TraceBuilder) -> Overlap:
    return measure_overlap(builder.read())


def profile_of(builder: TraceBuilder) -> Profile:
    return measure(builder.read())


def readbacks(kernel: int) -> TraceBuilder:
    """Return three steps of 1000 µs: a kernel of this length from their start, then a copy of 300 µs alone."""
    builder = TraceBuilder()
    for start in (0, 1000, 2000):
        builder.step(start // 1000, start - 100, 900)
        builder.kernel(start, kernel, launch=start - 90)
        builder.copy("DtoH (Device -> Pinned)", start + kernel, 300, launch=start - 80, stream=SIDE)
    return builder


def test_a_copy_that_only_the_end_of_the_recording_exposes_counts_neither_in_the_share_nor_per_step() -> None:
    overlap, profile = overlap_of(readbacks(1000)), profile_of(readbacks(1000))
    assert overlap.by_reason == (("end_of_recording", 1, 300_000),)
    assert overlap.counts.tolist() == [True, True, False]
    assert (overlap.known_ns, overlap.fraction) == (600_000, 1.0)
    assert profile.overlap == Known(OverlapSums(600_000, 300_000, 600_000, 1.0))
    assert EXPOSED_MS.of(profile) == Known(0)
    assert (profile.parts[0].copy_ns, profile.parts[0].both_ns) == (0, 200_000)  # of three steps, in two


def test_a_copy_after_the_last_kernel_counts_where_those_before_it_are_exposed_too() -> None:
    profile = profile_of(readbacks(700))
    assert overlap_of(readbacks(700)).counts.all()
    assert profile.overlap == Known(OverlapSums(0, 900_000, 900_000, 0.0))
    assert EXPOSED_MS.of(profile) == Known(300_000)


def test_copies_in_both_directions_at_once_count_once() -> None:
    builder = TraceBuilder()
    builder.copy(PINNED, 0, 100, launch=0, stream=SIDE)
    builder.copy("DtoH (Device -> Pinned)", 50, 100, launch=1, stream=SIDE + 1)
    overlap = overlap_of(builder)
    assert overlap.copy_ns == 150_000
    assert overlap.exposed_ns.tolist() == [100_000, 50_000]
    assert overlap.counts.all()  # without a kernel nothing shows that the recording ended too early


def copied(kind: str = PINNED, *, launch: float = -5, stream: int = SIDE) -> Part:
    return copy(kind, 0, 100, launch=launch, stream=stream)


EXPOSED_COPIES: dict[str, tuple[list[Part], str, int]] = {
    "of pageable memory": (
        [copied("HtoD (Pageable -> Device)", launch=0, stream=COMPUTE), kernel(100, 10, launch=3)],
        *("pageable", 100),
    ),
    "of unknown memory": (
        [copied("HtoD (Host -> Device)", launch=0, stream=COMPUTE), kernel(100, 10, launch=3)],
        *("same_stream", 100),
    ),
    "before a kernel of its stream": ([kernel(150, 40, launch=-60), copied(stream=COMPUTE)], "same_stream", 100),
    "behind a kernel of its stream": ([kernel(-50, 40, launch=-60), copied(stream=COMPUTE)], "same_stream", 100),
    "that had ended when a kernel came": ([copied(), kernel(200, 50, launch=150)], "no_kernels_to_overlap", 100),
    "that begins before the kernels": ([copied(), kernel(30, 200, launch=10)], "no_kernels_to_overlap", 30),
    "that begins before them, launched behind": ([copied(), kernel(30, 200, launch=-10)], "launched_late", 30),
    "with an end behind a kernel": (
        [kernel(-50, 80, launch=-60), copied(), kernel(90, 200, launch=10)],
        *("launched_late", 60),
    ),
    "that starts at once, while a kernel waits for it": (
        [kernel(-100, 90, launch=-150), copied(), kernel(100, 50, launch=0)],
        *("launched_late", 100),
    ),
    "that itself queued": ([copied(launch=-500), kernel(100, 50, launch=0)], "other", 100),
    "with one that is hidden": (
        [
            *(kernel(0, 100, launch=-10), copy(PINNED, 10, 20, launch=-5, stream=SIDE)),
            copy("HtoD (Pageable -> Device)", 200, 30, launch=190),
        ],
        *("pageable", 30),
    ),
}
"""What the GPU does, why the copy is exposed, and for how many µs."""


@pytest.mark.parametrize(("parts", "reason", "exposed_us"), EXPOSED_COPIES.values(), ids=EXPOSED_COPIES)
def test_why_a_copy_is_exposed(parts: list[Part], reason: str, exposed_us: int) -> None:
    assert overlap_of(built(*parts)).by_reason == ((reason, 1, exposed_us * 1000),)


@given(
    copies=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), min_size=1, max_size=8),
    kernels=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=8),
)
def test_the_parts_of_the_copies_add_up_to_the_exposed_time(
    copies: list[tuple[int, int]], kernels: list[tuple[int, int]]
) -> None:
    def columns(ranges: list[tuple[int, int]]) -> Intervals:
        rows = np.array(sorted(ranges), dtype=np.int64).reshape(-1, 2)
        return Intervals(rows[:, 0], rows.sum(axis=1))

    start, end = columns(copies)
    busy = union(*columns(kernels))
    exposed = _exposed(start, end, busy)
    assert (exposed >= 0).all()
    assert exposed.sum() == length(subtract(union(start, end), busy))


@pytest.mark.parametrize("seed", range(8))
def test_a_kernel_of_any_other_stream_could_have_hidden_a_copy(seed: int) -> None:
    chance, builder = Random(seed), TraceBuilder()
    for place in range(40):
        at, stream = 10 * place, chance.randrange(4)
        if chance.random() < 0.7:
            builder.kernel(at + chance.randrange(5, 200), chance.randrange(1, 60), launch=at, stream=stream)
        else:
            builder.copy(PINNED, at + chance.randrange(5, 200), 9, launch=at, stream=stream)
    trace = builder.read()
    gpu, launched, copies = trace.gpu, trace.links.launched_ns, measure_overlap(trace).row
    kernels = np.flatnonzero(gpu.category == KERNEL)
    for row, queued in zip(copies.tolist(), _kernels_were_queued(trace, copies, kernels).tolist(), strict=True):
        others = kernels[(gpu.stream[kernels] != gpu.stream[row]) & (launched[kernels] < gpu.end_ns[row])]
        assert queued == bool((gpu.end_ns[others] > gpu.start_ns[row]).any())
