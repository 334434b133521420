import pytest
from detector import FOLDER, detector
from trace_builder import LAUNCH_US, SIDE, TraceBuilder

from pinprof.details import details_of
from pinprof.ground.errors import TraceError
from pinprof.measurement.measure import measure
from pinprof.prediction import PinnedRates, Prediction, Scenario, predict
from pinprof.prediction.edits import COPY_LAUNCHES
from pinprof.prediction.scenarios import changes_of, places_in
from pinprof.trace.tables import DTOH, HTOD

PAGEABLE, PINNED = "HtoD (Pageable -> Device)", "HtoD (Pinned -> Device)"
STEPS = 6
NEXT_BATCH = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def predicted(builder: TraceBuilder, step_ms: float, **changes: object) -> Prediction:
    trace = builder.read()
    return predict(trace, Scenario(**changes), step_ms)  # type: ignore[arg-type]


def item_and_work() -> TraceBuilder:
    """Each step of 1000 µs: a kernel of 500 µs, `item()` at its end, then 400 µs of work on the host."""
    builder = TraceBuilder()
    for start in builder.steps(STEPS, length=1000):
        builder.kernel(start + 20, 500, launch=start + 10)
        builder.op("aten::item", start + 30, 510)
        builder.copy("DtoH (Device -> Pinned)", start + 521, 2, launch=start + 35, size=4)
        builder.call("cudaStreamSynchronize", start + 40, 488)
    return builder


def test_without_the_wait_the_host_works_beside_the_gpu() -> None:
    step = predicted(item_and_work(), 1.0, drop_syncs=("all",))
    assert step.baseline_source == "given"
    assert step.predicted_ns == pytest.approx(502_000, rel=0.03)  # the kernel alone
    assert (step.bound_before, step.bound_after) == ("host", "gpu")
    assert step.range_ns[0] < step.predicted_ns < step.range_ns[1]


@pytest.mark.parametrize(("step_ms", "why"), [(1.3, "takes 1.00 ms"), (0.3, "works for 502 µs")])
def test_a_step_that_cannot_be_that_of_the_trace_is_refused(step_ms: float, why: str) -> None:
    with pytest.raises(TraceError, match=f"is not its own.*{why}"):  # the GPU works for 502 of 1000 µs
        predicted(item_and_work(), step_ms)


def test_a_step_that_waits_for_the_loader_may_be_longer_than_the_one_recorded() -> None:
    builder = item_and_work()
    for number in range(STEPS):
        builder.event("user_annotation", NEXT_BATCH, 1000 * number + 600, 50)
    step = predicted(builder, 30.0)
    assert (step.baseline_ns, step.bound_before, step.bound_after) == (30e6, "input", "input")


@pytest.mark.parametrize(
    ("speeds", "saved_us"), [({"gpu_speed": 2.0}, 250), ({"host_speed": 2.0}, 240)], ids=["of its 500 us", "of its 480"]
)
def test_what_is_twice_as_fast_takes_half_of_its_time(speeds: dict[str, float], saved_us: float) -> None:
    assert predicted(item_and_work(), 1.0, **speeds).predicted_ns == pytest.approx(1e6 - 1000 * saved_us, rel=0.03)


def copying(kind: str, *, copy: float) -> TraceBuilder:
    """Steps of 1000 µs: the host waits for a copy of 5.5 MB, which waits for the kernel before it, then launches one.

    Copy and kernel take 980 µs together. A pageable copy holds the host in its own call.
    """
    builder = TraceBuilder()
    kernel = 980 - copy
    for start in builder.steps(STEPS, length=998):
        builder.op("aten::to", start + 4, 988)
        pageable = kind == PAGEABLE
        builder.copy(kind, start + kernel + 1, copy, launch=start + 5, call=980 if pageable else 5, size=5_500_000)
        builder.call("cudaStreamSynchronize", start + (986 if pageable else 12), 3 if pageable else 975)
        builder.kernel(start + 1000, kernel, launch=start + 993)
    return builder


def test_a_pinned_copy_takes_its_bytes_over_the_rate() -> None:
    builder = copying(PAGEABLE, copy=300)
    step = predicted(builder, 1.0, pin=True, pinned_gbps=55.0)
    faster = predicted(builder, 1.0, pin=True, non_blocking=True, pinned_gbps=55.0)
    assert step.predicted_ns == pytest.approx(1_000_000 - 198_000, rel=0.01)  # 102 instead of 300 µs
    assert faster.predicted_ns == pytest.approx(680_000 + 102_000, rel=0.01)  # the GPU alone


def test_where_only_pageable_copies_are_launched_a_pinned_one_does_not_last_as_long() -> None:
    """40 MB, staged in 3,000 us of the host, take 1,000 us at 40 GB/s; no other launch shows what one takes."""
    builder = TraceBuilder()
    for start in builder.steps(4, 4_000):
        builder.copy("HtoD (Pageable -> Device)", start + 110, 2_900, launch=start + 100, call=3_020, size=40_000_000)
    prediction = predicted(builder, 4.0, pin=True, pinned_gbps=40.0)
    assert prediction.predicted_ns == pytest.approx(1_050_000, rel=0.1)


def test_a_small_copy_that_becomes_pinned_and_asynchronous_takes_a_longer_call() -> None:
    """Steps of 1000 us, of the host alone: ten copies of 4 kB in calls of 2 us."""
    builder = TraceBuilder()
    for start in builder.steps(STEPS, length=998):
        for at in range(start + 10, start + 110, 10):
            builder.copy("HtoD (Pageable -> Device)", at + 3, 1, launch=at, call=2, size=4096)
        builder.kernel(start + 300, 10, launch=start + 200)
    prediction = predicted(builder, 1.0, pin=True, non_blocking=True)
    assert prediction.predicted_ns == pytest.approx(1_000_000 + 10 * 1000 * (COPY_LAUNCHES * LAUNCH_US - 2), rel=0.005)


def test_what_limits_the_step_is_what_the_report_says() -> None:
    builder = copying(PAGEABLE, copy=300)  # the host stages copies during 680 µs of kernels
    step = predicted(builder, 1.0, pin=True, non_blocking=True, pinned_gbps=55.0)
    assert (step.bound_before, step.bound_after) == ("host", "gpu")
    assert measure(builder.read()).bound == "host"


def test_a_pinned_copy_takes_what_it_was_measured_at_on_a_machine() -> None:
    builder = copying(PAGEABLE, copy=300)
    machine = PinnedRates("H200", htod=((1_000_000, 27.5), (10_000_000, 27.5)), dtoh=((1_000_000, 1.0),))
    step = predicted(builder, 1.0, pin=True, machine=machine)
    assert step.predicted_ns == pytest.approx(1_000_000 - 100_000, rel=0.01)  # 200 instead of 300 µs
    at_a_rate = predicted(builder, 1.0, pin=True, machine=machine, pinned_gbps=55.0)
    assert at_a_rate.predicted_ns == pytest.approx(1_000_000 - 198_000, rel=0.01)  # the rate that is given wins


def test_between_measured_sizes_the_time_of_a_copy_is_between_theirs() -> None:
    machine = PinnedRates("H200", htod=((1_000, 0.1), (1_000_000, 10.0), (100_000_000, 50.0)))
    assert machine.time_ns(HTOD, 1) == pytest.approx(10_000)  # no less than the smallest
    assert machine.time_ns(HTOD, 1_000) == pytest.approx(10_000)
    assert machine.time_ns(HTOD, 1_000_000) == pytest.approx(100_000)
    assert machine.time_ns(HTOD, 31_623) == pytest.approx(31_623, rel=1e-4)  # half way on both logarithmic axes
    assert machine.time_ns(HTOD, 200_000_000) == pytest.approx(4_000_000)  # at the rate of the largest
    assert machine.time_ns(DTOH, 1_000) is None


def test_copies_made_ahead_hide_behind_kernels() -> None:
    step = predicted(copying(PINNED, copy=100), 1.0, non_blocking=True, overlap_copies=True)
    assert step.predicted_ns == pytest.approx(880_000, rel=0.01)


def test_copies_made_ahead_are_limited_by_their_engine() -> None:
    builder = TraceBuilder()
    for number in range(STEPS):
        host, gpu = 20 * number, 100 + 952 * number
        builder.step(number, host, 20)
        builder.copy(PINNED, gpu, 800, launch=host + 1, size=5_500_000)
        builder.kernel(gpu + 801, 150, launch=host + 10)
    step = predicted(builder, 0.952, overlap_copies=True)
    assert step.predicted_ns == pytest.approx(800_000, rel=0.01)  # one copy after the other, during the kernel


def test_without_allocations_the_host_goes_on() -> None:
    builder = TraceBuilder()
    for start in builder.steps(STEPS, length=1000):
        builder.kernel(start + 20, 300, launch=start + 10)
        builder.call("cudaFree", start + 30, 400)
        builder.call("cudaMalloc", start + 440, 300)
    step = predicted(builder, 1.0, drop_allocs=True)
    assert step.predicted_ns == pytest.approx(300_000, rel=0.03)


def test_only_the_site_that_is_named_is_dropped() -> None:
    builder = item_and_work()
    builder.metadata["pinprof_lines"] = [
        {
            "op": "aten::item",
            "thread": "main",
            "at": [{"file": "train.py", "line": 7, "function": "f", "stack": [], "cause": None}],
        }
    ]
    assert predicted(builder, 1.0, drop_syncs=("train.py:7",)).predicted_ns < 600_000
    with pytest.raises(TraceError, match=r"the host does not wait at train\.py:8; it does at train\.py:7"):
        predicted(builder, 1.0, drop_syncs=("train.py:8",))


def test_a_wait_for_a_side_stream_costs_only_what_it_lasts() -> None:
    builder = TraceBuilder()
    for start in builder.steps(STEPS, length=1000):
        builder.kernel(start + 20, 980, launch=start + 10)
        builder.copy("DtoH (Device -> Pinned)", start + 30, 100, launch=start + 15, stream=SIDE)
        builder.call("cudaEventRecord", start + 18, 1)
        builder.call("cudaEventSynchronize", start + 25, 110)
    assert predicted(builder, 1.0, drop_syncs=("all",)).predicted_ns == pytest.approx(990_000, rel=0.02)


def test_a_trace_that_cannot_run_again_is_refused_in_one_line() -> None:
    builder = TraceBuilder()
    builder.op("aten::add", 0, 10)
    with pytest.raises(TraceError) as error:
        predicted(builder, 1.0)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("place", "waits"),
    [
        *(("train.py:30", 6), ("train.py:main", 7), (f"{FOLDER}/roi_heads.py:32", 2)),
        *(("roi_heads.py:fastrcnn_loss", 3), ("ops/boxes.py:83", 2), ("train.py:60", 1)),
    ],
)
def test_waits_are_dropped_by_the_users_place_and_by_the_librarys(place: str, waits: int) -> None:
    details = details_of(detector().read())
    scenario = Scenario(drop_syncs=places_in("trace.json", [details.syncs], [place]))
    (change,) = changes_of(details, scenario)
    assert change.per_step == waits
