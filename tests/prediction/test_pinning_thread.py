"""The thread of a DataLoader that pins batches of workers: it receives, copies and unmaps them during the step."""

from collections.abc import Sequence
from typing import Any

import pytest
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.details import details_of
from pinprof.ground.intervals import length
from pinprof.prediction import Scenario, predict
from pinprof.prediction.pinning import (
    MAX_FREEING_NS_PER_BYTE,
    THREAD_PER_MAIN,
    PinnedRates,
    freed_batches,
    pinning_thread,
)
from pinprof.report.whatif import prediction_to_text
from pinprof.rules.rule import Finding
from pinprof.trace import Trace
from pinprof.trace.tables import HTOD

MIB = 1 << 20
WORKERS, IN_PROCESS = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"
RECEIVED, STAGED, FREED, LAUNCHED = 500, 8_000, 3_000, 280
"""Microseconds of a step in which the main thread receives a batch, stages it, unmaps it, and launches kernels."""
PINNED_MS = (RECEIVED + THREAD_PER_MAIN * (STAGED + FREED)) / 1000
"""How long the thread needs to receive, copy and unmap such a batch: 13.7 ms."""


def recorded(
    *,
    work: int = 10_000,
    freed: int = FREED,
    by: str = WORKERS,
    received: int = RECEIVED,
    size: int = 48 * MIB,
    plain_ms: float | None = None,
) -> Trace:
    """Steps that draw a batch, copy it unpinned as soon as the GPU is free, unmap it in a pause, and launch kernels."""
    builder = TraceBuilder()
    free = work - LAUNCHED + 50
    for begin in builder.steps(4, period=free + STAGED + 50 + freed + LAUNCHED):
        builder.event("user_annotation", f"enumerate(DataLoader)#{by}.__next__", begin, received)
        end = begin + free + STAGED + 50
        builder.op("aten::to", begin + RECEIVED + 10, end - begin - RECEIVED - 10)
        launch = begin + RECEIVED + 20
        call = end - launch - 20
        builder.copy("HtoD (Pageable -> Device)", begin + free, STAGED, launch=launch, call=call, size=size)
        for number in range(4):
            at = end + freed + 70 * number
            builder.op("aten::mm", at, 60)
            builder.kernel(end + freed + 50 + number * work / 4, work / 4, launch=at + 10)
    if plain_ms:
        builder.metadata["pinprof"] = {"plain": {"steps": 20, "mean_ms": plain_ms}}
    return builder.read()


def copies_of(trace: Trace) -> Sequence[int]:
    return [row for row, direction in enumerate(trace.gpu.direction.tolist()) if direction == HTOD]


def needed_ms(trace: Trace, machine: PinnedRates | None = None) -> float:
    thread = pinning_thread(details_of(trace), copies_of(trace), machine)
    assert thread
    return thread.step_ns / 1e6


def test_the_thread_does_what_the_main_thread_does_now() -> None:
    assert needed_ms(recorded()) == pytest.approx(PINNED_MS, rel=0.01)


def test_a_pause_that_is_too_long_for_a_batch_is_not_all_freeing() -> None:
    most_ms = MAX_FREEING_NS_PER_BYTE * 8 * MIB / 1e6
    trace = recorded(size=8 * MIB)
    assert needed_ms(trace) == pytest.approx(RECEIVED / 1000 + THREAD_PER_MAIN * (STAGED / 1000 + most_ms), rel=0.01)


def test_batches_may_be_drawn_in_no_time() -> None:
    assert needed_ms(recorded(received=0)) == pytest.approx(PINNED_MS - RECEIVED / 1000, rel=0.01)


def test_a_bench_tells_how_fast_a_thread_pins_on_this_machine() -> None:
    rates = PinnedRates("H200", by_thread=((MIB, 2.0), (48 * MIB, 4.0)))
    assert needed_ms(recorded(), rates) == pytest.approx(RECEIVED / 1000 + 48 * MIB / 4e6, rel=0.01)


@pytest.mark.parametrize("changed", [{"by": IN_PROCESS}, {"size": 100_000}])
def test_no_thread_pins_what_no_worker_shares_or_what_is_small(changed: dict[str, Any]) -> None:
    trace = recorded(**changed)
    assert pinning_thread(details_of(trace), copies_of(trace), None) is None


def test_a_step_is_as_long_as_its_batch_takes_to_pin() -> None:
    """The GPU works for 10 ms of 21; the main thread no longer stages and unmaps: the thread needs 13.7 ms for it."""
    prediction = predict(recorded(plain_ms=21.1), Scenario(pin=True, non_blocking=True))
    assert prediction.predicted_ms == pytest.approx(PINNED_MS, rel=0.01)
    assert prediction.waits_for_pinning
    low, high = prediction.range_ms
    assert 10.0 < low < 0.88 * PINNED_MS
    assert 1.15 * PINNED_MS < high < 21.1
    text = prediction_to_text([(recorded(), ())], prediction)
    assert "after: the DataLoader's thread pins 13.7 ms per step" in text


def test_where_the_gpu_works_for_longer_it_sets_the_pace() -> None:
    prediction = predict(recorded(work=19_000, plain_ms=30.1), Scenario(pin=True, non_blocking=True))
    assert prediction.predicted_ms == pytest.approx(20.5, abs=1.0)
    assert not prediction.waits_for_pinning


def found(trace: Trace, rule: str) -> Finding | None:
    return next((finding for finding in analyse(trace).findings if finding.rule.id == rule), None)


def test_to_unmap_batches_is_no_python_of_the_program() -> None:
    trace = recorded(plain_ms=21.1)
    assert length(freed_batches(details_of(trace))) == pytest.approx(4 * FREED * 1000, rel=0.02)
    assert found(trace, "PIN603") is None
    pins = found(trace, "PIN104")
    assert pins
    assert "unmapping them takes 3.0" in pins.evidence.text
    assert "the thread that pins needs about 13.7 ms per step" in pins.evidence.text


def test_pinning_spares_no_pause_beyond_the_time_that_a_batch_can_take() -> None:
    """Of 10 ms after a copy of 8 MiB at most 2.4 ms are its freeing."""
    trace = recorded(size=8 * MIB, freed=10_000, plain_ms=28.1)
    most = MAX_FREEING_NS_PER_BYTE * 8 * MIB
    assert length(freed_batches(details_of(trace))) == pytest.approx(4 * most)
    thread = pinning_thread(details_of(trace), copies_of(trace), None)
    assert thread
    assert sum(end - begin for _, begin, end in thread.freed) == pytest.approx(4 * most)


def test_the_gpu_is_idle_once_while_a_batch_is_unmapped() -> None:
    pins = found(recorded(plain_ms=21.1), "PIN104")
    assert pins
    assert pins.evidence.cost_ns == pytest.approx((STAGED + FREED) * 1000, rel=0.02)


def test_small_copies_beside_a_batch_are_not_what_takes_long_to_unmap() -> None:
    """The costs of copies at two places add up: the one of 4 KiB has hardly a share in unmapping."""
    batches = "HtoD (Pageable -> Device)"
    builder = TraceBuilder()
    for begin in builder.steps(4, period=20_000):
        builder.event("user_annotation", f"enumerate(DataLoader)#{WORKERS}.__next__", begin, RECEIVED)
        for place, at, took, size in (("batch", 600, STAGED, 48 * MIB), ("label", 12_000, 10, 4096)):
            builder.function(f"train.py({at}): {place}", begin + at, took + 20)
            builder.op("aten::to", begin + at + 2, took + 16)
            builder.copy(batches, begin + at + 10, took, launch=begin + at + 5, call=took + 8, size=size)
        for number in range(4):
            builder.op("aten::mm", begin + 12_100 + 50 * number, 40)
            builder.kernel(begin + 12_120 + 1000 * number, 1000, launch=begin + 12_105 + 50 * number)
    pins = found(builder.read(), "PIN104")
    assert pins
    assert [site.evidence.function for site in pins.sites] == ["batch"]
    assert pins.evidence.cost_ns == pytest.approx((STAGED + 3_460) * 1000, rel=0.01)


def test_a_process_that_makes_its_batches_itself_unmaps_none() -> None:
    assert not length(freed_batches(details_of(recorded(by=IN_PROCESS))))
