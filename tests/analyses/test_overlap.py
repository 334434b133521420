from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builder import COMPUTE, SIDE, TraceBuilder

from pinprof.analyses.copies import REASONS, Overlap, _exposed, _kernels_were_queued, measure_overlap
from pinprof.intervals import Intervals, length, subtract, union
from pinprof.measurement.figures import EXPOSED
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import OverlapSums, Profile
from pinprof.measurement.trust.doubt import Known
from pinprof.trace import read_trace
from pinprof.trace.tables import KERNEL

PINNED = "HtoD (Pinned -> Device)"


def overlap_of(builder: TraceBuilder, folder: Path) -> Overlap:
    return measure_overlap(read_trace(builder.write(folder / "trace.json")))


def reasons_of(overlap: Overlap) -> list[str]:
    return [REASONS[code] for code in overlap.reason]


def test_a_copy_under_a_kernel_is_overlapped_and_the_rest_exposed(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(100, 100, launch=0)
    builder.copy(PINNED, 150, 100, launch=3, stream=SIDE)
    (device,) = overlap_of(builder, tmp_path).devices
    assert (device.copy_ns, device.overlapped_ns, device.exposed_ns) == (100_000, 50_000, 50_000)


def profile_of(builder: TraceBuilder, folder: Path) -> Profile:
    return measure(read_trace(builder.write(folder / "trace.json")))


def readbacks(kernel: int) -> TraceBuilder:
    """Return three steps of 1000 µs: a kernel of this length from their start, then a copy of 300 µs alone."""
    builder = TraceBuilder()
    for start in (0, 1000, 2000):
        builder.step(start // 1000, start - 100, 900)
        builder.kernel(start, kernel, launch=start - 90)
        builder.copy("DtoH (Device -> Pinned)", start + kernel, 300, launch=start - 80, stream=SIDE)
    return builder


def test_a_copy_that_only_the_end_of_the_recording_exposes_counts_neither_in_the_share_nor_per_step(
    tmp_path: Path,
) -> None:
    overlap, profile = overlap_of(readbacks(1000), tmp_path), profile_of(readbacks(1000), tmp_path)
    assert overlap.by_reason == (("end_of_recording", 1, 300_000),)
    assert overlap.counts.tolist() == [True, True, False]
    assert (overlap.known_ns, overlap.fraction) == (600_000, 1.0)
    assert profile.overlap == Known(OverlapSums(600_000, 300_000, 600_000, 1.0))
    assert EXPOSED.of(profile) == Known(0)
    assert (profile.parts[0].copy_ns, profile.parts[0].both_ns) == (0, 200_000)  # of three steps, in two


def test_a_copy_after_the_last_kernel_counts_where_those_before_it_are_exposed_too(tmp_path: Path) -> None:
    profile = profile_of(readbacks(700), tmp_path)
    assert overlap_of(readbacks(700), tmp_path).counts.all()
    assert profile.overlap == Known(OverlapSums(0, 900_000, 900_000, 0.0))
    assert EXPOSED.of(profile) == Known(300_000)


def test_a_single_copy_after_the_last_kernel_counts(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 100, launch=-10)
    builder.copy(PINNED, 50, 100, launch=-5, stream=SIDE)
    assert overlap_of(builder, tmp_path).fraction == 0.5


def test_memsets_hide_no_copy(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.activity("gpu_memset", "Memset (Device)", 0, 100, correlation=0, device=0, stream=COMPUTE)
    builder.copy(PINNED, 0, 100, launch=0, stream=SIDE)
    (device,) = overlap_of(builder, tmp_path).devices
    assert device.overlapped_ns == 0


def test_copies_in_both_directions_at_once_count_once(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(PINNED, 0, 100, launch=0, stream=SIDE)
    builder.copy("DtoH (Device -> Pinned)", 50, 100, launch=1, stream=SIDE + 1)
    overlap = overlap_of(builder, tmp_path)
    assert overlap.devices[0].copy_ns == 150_000
    assert overlap.exposed_ns.tolist() == [100_000, 50_000]
    assert overlap.counts.all()  # without a kernel nothing shows that the recording ended too early


def test_pageable_memory_is_the_first_reason(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy("HtoD (Pageable -> Device)", 0, 100, launch=0)
    builder.kernel(100, 10, launch=3)
    assert reasons_of(overlap_of(builder, tmp_path)) == ["pageable"]


@pytest.mark.parametrize("kernel", [-50, 150])
def test_a_copy_on_the_stream_of_the_kernel_before_or_after_it_cannot_overlap(tmp_path: Path, kernel: float) -> None:
    builder = TraceBuilder()
    builder.kernel(kernel, 40, launch=-60)
    builder.copy(PINNED, 0, 100, launch=-55)
    assert reasons_of(overlap_of(builder, tmp_path)) == ["same_stream"]


def test_without_a_queued_kernel_there_was_nothing_to_overlap(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(PINNED, 0, 100, launch=-5, stream=SIDE)
    builder.kernel(200, 50, launch=150)  # launched when the copy had ended
    assert reasons_of(overlap_of(builder, tmp_path)) == ["no_kernels_to_overlap"]


def test_the_beginning_of_a_copy_that_came_before_the_kernels_lacks_a_kernel(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(PINNED, 0, 100, launch=-5, stream=SIDE)
    builder.kernel(30, 200, launch=10)
    overlap = overlap_of(builder, tmp_path)
    assert overlap.by_reason == (("no_kernels_to_overlap", 1, 30_000),)


def test_the_beginning_of_a_copy_launched_behind_the_kernels_was_launched_late(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(PINNED, 0, 100, launch=-5, stream=SIDE)
    builder.kernel(30, 200, launch=-10)
    overlap = overlap_of(builder, tmp_path)
    assert overlap.by_reason == (("launched_late", 1, 30_000),)


def test_the_end_of_a_copy_that_a_kernel_ran_beside_was_launched_late(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(-50, 80, launch=-60)
    builder.copy(PINNED, 0, 100, launch=-5, stream=SIDE)
    builder.kernel(90, 200, launch=10)
    overlap = overlap_of(builder, tmp_path)
    assert overlap.by_reason == (("launched_late", 1, 60_000),)


def test_a_copy_that_starts_at_once_while_a_kernel_waits_for_it_was_launched_late(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(-100, 90, launch=-150)
    builder.copy(PINNED, 0, 100, launch=-5, stream=SIDE)
    builder.kernel(100, 50, launch=0)  # queued all the time
    assert reasons_of(overlap_of(builder, tmp_path)) == ["launched_late"]


def test_a_copy_that_itself_queued_has_another_reason(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(PINNED, 0, 100, launch=-500, stream=SIDE)
    builder.kernel(100, 50, launch=0)
    assert reasons_of(overlap_of(builder, tmp_path)) == ["other"]


def test_a_copy_of_unknown_host_memory_is_not_called_pageable(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy("HtoD (Host -> Device)", 0, 100, launch=0)
    builder.kernel(100, 10, launch=3)
    assert reasons_of(overlap_of(builder, tmp_path)) == ["same_stream"]


def test_by_reason_counts_only_copies_with_exposed_time(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 100, launch=-10)
    builder.copy(PINNED, 10, 20, launch=-5, stream=SIDE)  # hidden
    builder.copy("HtoD (Pageable -> Device)", 200, 30, launch=190)
    assert overlap_of(builder, tmp_path).by_reason == (("pageable", 1, 30_000),)


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
def test_a_kernel_of_any_other_stream_could_have_hidden_a_copy(seed: int, tmp_path: Path) -> None:
    chance, builder = Random(seed), TraceBuilder()
    for place in range(40):
        at, stream = 10 * place, chance.randrange(4)
        if chance.random() < 0.7:
            builder.kernel(at + chance.randrange(5, 200), chance.randrange(1, 60), launch=at, stream=stream)
        else:
            builder.copy(PINNED, at + chance.randrange(5, 200), 9, launch=at, stream=stream)
    trace = read_trace(builder.write(tmp_path / "t.json"))
    gpu, launched, copies = trace.gpu, trace.launched_ns, measure_overlap(trace).row
    kernels = np.flatnonzero(gpu.category == KERNEL)
    for row, queued in zip(copies.tolist(), _kernels_were_queued(trace, copies, kernels).tolist(), strict=True):
        others = kernels[(gpu.stream[kernels] != gpu.stream[row]) & (launched[kernels] < gpu.end_ns[row])]
        assert queued == bool((gpu.end_ns[others] > gpu.start_ns[row]).any())
