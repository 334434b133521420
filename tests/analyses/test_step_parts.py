from trace_builder import SIDE, TraceBuilder

from pinprof.analyses.copies import measure_overlap
from pinprof.analyses.step_parts import MeanStep, StepParts, measure_mean, measure_parts


def parts_of(builder: TraceBuilder) -> tuple[StepParts, ...]:
    return measure_parts(builder.read())


def times(parts: StepParts) -> list[list[int]]:
    columns = (parts.length_ns, parts.compute_ns, parts.both_ns, parts.copy_ns, parts.memset_ns, parts.idle_ns)
    return [[time // 1000 for time in row] for row in zip(*(column.tolist() for column in columns), strict=True)]


def copying(steps: int, device: int = 0) -> TraceBuilder:
    """Steps of 1000 µs whose work ends at 800: idle, 300 µs compute, 100 both, 200 copy, 10 memset within 50 idle."""
    builder = TraceBuilder()
    for time in builder.steps(steps):
        builder.kernel(time + 100, 400, launch=time + 1, device=device)
        copy = "HtoD (Pinned -> Device)"
        builder.copy(copy, time + 400, 300, launch=time + 10, stream=SIDE, device=device)
        call = builder.call("cudaMemsetAsync", time + 20, 2)
        builder.activity("gpu_memset", "Memset", time + 790, 10, correlation=call, device=device, stream=7)
    return builder


def test_the_parts_of_a_step_add_up_to_the_time_since_the_step_before() -> None:
    (parts,) = parts_of(copying(3))
    assert parts.step.tolist() == [1, 2]  # when the first one began is not known
    # from 800 of one step to 800 of the next: idle to 1100, compute to 1400, both to 1500, copy to 1700, memset at 1790
    assert times(parts) == [[1000, 300, 100, 200, 10, 390]] * 2


def test_a_single_step_counts_from_its_first_work() -> None:
    (parts,) = parts_of(copying(1))
    assert times(parts) == [[700, 300, 100, 200, 10, 90]]


def test_collectives_alone_are_told_from_other_kernels() -> None:
    builder = copying(3)
    for step in range(3):  # 50 us alone, 50 during a kernel
        name, time = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1000 * step
        call = builder.call("cudaLaunchKernelExC", time + 40, 2)
        builder.activity("kernel", name, time + 50, 100, correlation=call, device=0, stream=20)
    (parts,) = parts_of(builder)
    assert parts.collective_ns.tolist() == [50_000] * 2
    assert parts.compute_ns.tolist() == [350_000] * 2
    (mean,) = means_of(builder, 1000)
    assert (mean.collective_ns, mean.compute_ns) == (50_000, 350_000)


# the mean step


def means_of(builder: TraceBuilder, step_us: float) -> tuple[MeanStep, ...]:
    trace = builder.read()
    overlap = measure_overlap(trace)
    return measure_mean(trace, overlap.row, overlap.exposed_ns, 1000 * step_us)


def test_a_mean_step_is_the_work_of_all_complete_steps_and_idle_for_the_rest_of_its_length() -> None:
    (mean,) = means_of(copying(3), 850)
    assert mean == MeanStep(0, compute_ns=300e3, both_ns=100e3, copy_ns=200e3, memset_ns=10e3, idle_ns=240e3)
    assert (mean.work_ns, mean.length_ns) == (610e3, 850e3)


def test_a_mean_step_is_no_shorter_than_its_work() -> None:
    (mean,) = means_of(copying(3), 500)
    assert (mean.idle_ns, mean.length_ns) == (0, 610e3)


def test_each_device_has_a_mean_step_of_the_same_length() -> None:
    builder = copying(2)
    builder.kernel(300, 200, launch=30, device=1)  # in one step of two
    first, second = means_of(builder, 1000)
    assert first.length_ns == second.length_ns == 1e6
    assert (second.device, second.compute_ns, second.idle_ns) == (1, 100e3, 900e3)


def test_a_copy_within_the_gpu_is_its_work_and_hides_others() -> None:
    builder = TraceBuilder()
    for time in builder.steps(3):
        builder.copy("DtoD (Device -> Device)", time + 100, 300, launch=time + 1)
        builder.copy("HtoD (Pinned -> Device)", time + 300, 200, launch=time + 10, stream=SIDE)
    (parts,) = parts_of(builder)
    assert times(parts) == [[1000, 200, 100, 100, 0, 600]] * 2
    trace = builder.read()
    overlap = measure_overlap(trace)
    assert overlap.exposed_ns.tolist() == [0, 100_000] * 3
    (mean,) = measure_mean(trace, overlap.row, overlap.exposed_ns, 1e6)
    assert (mean.compute_ns, mean.both_ns, mean.copy_ns, mean.idle_ns) == (2e5, 1e5, 1e5, 6e5)
