"""A picture and the figures of a step, from traces whose every bar can be checked by eye."""

from pathlib import Path

import pytest
from trace_builder import SIDE, TraceBuilder

from pinprof.bench.catalogue.prefetching import LEAD_MS
from pinprof.bench.catalogue.small_tensors import COPY_CALLS
from pinprof.bench.experiment import COPIES_AT_ONCE, COPIES_HIDDEN, MAX_BARS, QUEUED_EARLY, WAITED, InTrace, picture
from pinprof.bench.results import Bar, Figure, Measured, Picture
from pinprof.details import details_of
from pinprof.trace import Trace, read_trace

CASE = Figure("E10", "a case")


def copying(path: Path, copy: str, stream: int, last: str) -> Trace:
    """Return steps of 1 ms: a copy of 400 µs, a kernel that overlaps the last 300 of it, a wait, and one more call."""
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.copy(copy, start + 20, 400, launch=start + 10, stream=stream)
        builder.kernel(start + 120, 600, launch=start + 110)
        builder.call("cudaStreamSynchronize", start + 130, 600)
        builder.call(last, start + 740, 5)
    return read_trace(str(builder.write(path)))


def drawn(path: Path, copy: str, stream: int) -> Picture:
    trace = copying(path, copy, stream, "cudaEventRecord")
    return picture(CASE, trace, details_of(trace))


def test_bars_of_host_and_streams_from_the_start_of_the_step(tmp_path: Path) -> None:
    made = drawn(tmp_path / "trace.json", "HtoD (Pinned -> Device)", SIDE)
    assert made.case == "a case"
    assert made.bars == (
        *(Bar("host", "copy", 0.01, 0.012), Bar("stream 20", "exposed copy", 0.02, 0.12)),
        *(Bar("host", "launch", 0.11, 0.112), Bar("stream 7", "kernel", 0.12, 0.72)),
        *(Bar("stream 20", "overlapped copy", 0.12, 0.42), Bar("host", "wait", 0.13, 0.73)),
        Bar("stalls", "stream_synchronize", 0.13, 0.73),
    )
    assert made.step_ms is None


def test_of_a_step_of_many_bars_the_picture_has_the_beginning() -> None:
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000):
        for place in range(MAX_BARS):
            at = start + 20 * place
            builder.copy("HtoD (Pinned -> Device)", at + 10, 15, launch=at + 5)
    trace = builder.read()
    made = picture(CASE, trace, details_of(trace))
    assert len(made.bars) == MAX_BARS
    assert made.bars[-1] == Bar("stream 7", "exposed copy", 1.49, 1.505)  # the next begins at 1.505
    assert made.step_ms == 9.99


def test_why_is_the_share_and_the_reason_of_the_rest(tmp_path: Path) -> None:
    assert drawn(tmp_path / "pageable.json", "HtoD (Pageable -> Device)", SIDE).why == (
        "75 % of the copy time overlapped; "
        "otherwise: the host memory is pageable: the driver stages the copy, and the host queues no kernel meanwhile"
    )
    builder = TraceBuilder()
    builder.kernel(10, 5, launch=1)
    trace = builder.read()
    assert picture(CASE, trace, details_of(trace)).why == "no copy was recorded"


def shown(figure: InTrace, trace: Trace) -> list[Measured]:
    return list(figure.read(CASE, trace, details_of(trace)))


def test_figures_of_a_trace(tmp_path: Path) -> None:
    trace = copying(tmp_path / "trace.json", "HtoD (Pinned -> Device)", SIDE, "cudaDeviceSynchronize")
    found: dict[str, float] = {}
    for figure in (WAITED, COPY_CALLS, COPIES_HIDDEN, LEAD_MS):
        (measured,) = shown(figure, trace)
        found[measured.name] = measured.median
    assert found == {
        "waits, a case": 2,
        "asynchronous copies, a case": 1,
        "overlapped, a case": 75,
        "ahead, a case": -0.29,  # asked for at 10 µs of a step, 290 after the kernel of the one before
    }


@pytest.mark.parametrize(("second", "share"), [(10, 100), (30, 100 / 3), (50, 0), (90, 0)])
def test_copies_run_at_once_while_more_than_one_does(second: float, share: float) -> None:
    """Of two steps, each with two copies of 40 µs on two streams."""
    builder = TraceBuilder()
    for number, start in enumerate((0, 200), start=1):
        builder.step(number, start, 190)
        builder.copy("HtoD (Pinned -> Device)", start + 10, 40, launch=start + 4)
        builder.copy("DtoH (Device -> Pinned)", start + second, 40, launch=start + 8, stream=SIDE)
    (made,) = shown(COPIES_AT_ONCE, builder.read())
    assert (made.name, made.unit, made.runs) == ("copies at once, a case", "%", 2)
    assert made.low == made.high == pytest.approx(share)


def test_a_copy_is_asked_for_early_if_the_one_before_has_not_ended() -> None:
    """Of three copies the second is queued while the first one runs, the third 2 µs after the second has ended."""
    builder = TraceBuilder()
    builder.step(1, 0, 190)
    for begin, launch in ((10, 4), (50, 8), (110, 92)):
        builder.copy("HtoD (Pinned -> Device)", begin, 40, launch=launch)
    (made,) = shown(QUEUED_EARLY, builder.read())
    assert made.median == 50
