"""A picture of one step, from a trace of three whose every bar can be checked by eye."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
from trace_builder import SIDE, TraceBuilder

from pinprof.bench.results import Bar, Figure, Picture
from pinprof.details import details_of
from pinprof.trace import Trace, read_trace
from pinprof.workloads import pictures
from pinprof.workloads.experiments import PROGRAMS
from pinprof.workloads.pictures import MOST_BARS, picture


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
    return picture("a case", trace, details_of(trace))


def test_bars_of_host_and_streams_from_the_start_of_the_step(tmp_path: Path) -> None:
    made = drawn(tmp_path / "trace.json", "HtoD (Pinned -> Device)", SIDE)
    assert made.case == "a case"
    assert made.bars == (
        Bar("host", "copy", 0.01, 0.012),
        Bar("stream 20", "exposed copy", 0.02, 0.12),
        Bar("host", "launch", 0.11, 0.112),
        Bar("stream 7", "kernel", 0.12, 0.72),
        Bar("stream 20", "overlapped copy", 0.12, 0.42),
        Bar("host", "wait", 0.13, 0.73),
        Bar("stalls", "stream_synchronize", 0.13, 0.73),
    )
    assert made.step_ms is None


def test_a_copy_beside_a_kernel_of_the_step_before_is_overlapped() -> None:
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.copy("HtoD (Pinned -> Device)", start + 20, 100, launch=start + 10, stream=SIDE)
        builder.kernel(start + 500, 600, launch=start + 200)  # until 100 µs into the next step
    trace = builder.read()
    copies = [bar for bar in picture("a case", trace, details_of(trace)).bars if bar.row == "stream 20"]
    assert copies == [Bar("stream 20", "overlapped copy", 0.02, 0.1), Bar("stream 20", "exposed copy", 0.1, 0.12)]


def test_of_a_step_of_many_bars_the_picture_has_the_beginning() -> None:
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000):
        for place in range(MOST_BARS):
            at = start + 20 * place
            builder.copy("HtoD (Pinned -> Device)", at + 10, 15, launch=at + 5)
    trace = builder.read()
    made = picture("many", trace, details_of(trace))
    assert len(made.bars) == MOST_BARS
    assert made.bars[-1] == Bar("stream 7", "exposed copy", 1.49, 1.505)  # the next begins at 1.505
    assert made.step_ms == 9.99


def test_bars_are_told_to_a_tenth_of_a_microsecond() -> None:
    step = SimpleNamespace(steps=SimpleNamespace(start_ns=np.array([1_000])))
    bar = pictures._between(cast("Trace", step), 0, "stream 7", "kernel", 1_000 + 12_349, 1_000 + 12_351)
    assert bar == Bar("stream 7", "kernel", 0.0123, 0.0124)


def test_why_is_the_share_and_the_reason_of_the_rest(tmp_path: Path) -> None:
    assert drawn(tmp_path / "pinned.json", "HtoD (Pinned -> Device)", SIDE).why.startswith(
        "75 % of the copy time overlapped; else: "
    )
    assert drawn(tmp_path / "pageable.json", "HtoD (Pageable -> Device)", SIDE).why == (
        "75 % of the copy time overlapped; "
        "else: the host memory is pageable: the driver stages the copy, and the host queues no kernel meanwhile"
    )


def test_without_steps_or_copies_there_is_still_a_picture() -> None:
    builder = TraceBuilder()
    builder.kernel(10, 5, launch=1)
    trace = builder.read()
    assert picture("none", trace, details_of(trace)).why == "no copy was recorded"


def test_figures_of_a_trace(tmp_path: Path) -> None:
    trace = copying(tmp_path / "trace.json", "HtoD (Pinned -> Device)", SIDE, "cudaDeviceSynchronize")
    measured = details_of(trace)
    medians: dict[str, float] = {}
    for experiment, case in (("E2", "non_blocking, one synchronize"), ("E14", "as written"), ("E10", "prefetcher")):
        read = PROGRAMS[experiment].read
        assert read is not None
        results = list(read(case, trace, measured))
        medians |= {figure.name: figure.median for figure in results if isinstance(figure, Figure)}
        assert [part.case for part in results if isinstance(part, Picture)] == [case]
    assert medians == {
        "waits, non_blocking": 2,
        "asynchronous copies, non_blocking": 1,
        "waits, as written": 2,
        "overlapped, as written": 75,
        "ahead, as written": -0.29,  # asked for at 10 µs of a step, 290 after the kernel of the one before
        "waits, prefetcher": 2,
        "overlapped, prefetcher": 75,
        "ahead, prefetcher": -0.29,
        "ended before the next kernel, prefetcher": 0,  # it runs until 420 µs, the kernel begins at 120
    }
