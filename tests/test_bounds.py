"""Traces that are made to be slow end soon: no work grows faster than the file, and no text of it fills a report.

Each of the first took minutes, or would not have ended.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from command_line import invoke, is_one_line_error
from fitting import fitting
from trace_builder import TraceBuilder

SOON = 60.0
"""In times of the yardstick: the slowest of these takes some 26, and what grew faster than the file took over 100."""
LONG = "x" * 1_000_000


def many_sites(count: int = 3_000) -> TraceBuilder:
    builder = TraceBuilder()
    for number in range(count):
        at = 20 * number
        builder.function(f"train.py({number}): f{number}", at, 19)
        builder.kernel(at + 3, 8, launch=at + 1)
        builder.call("cudaStreamSynchronize", at + 5, 8)
    return builder


def yardstick_s() -> float:
    """Return how long this machine takes now, in s, for work that is known: a busy one is several times as slow."""
    began = process_time()
    sorted({str(number): [number] for number in range(250_000)})
    return process_time() - began


def many_streams(count: int = 10_000) -> TraceBuilder:
    builder = TraceBuilder()
    for number in range(count):
        builder.kernel(10 * number + 4, 5, launch=10 * number, stream=number)
        builder.call("cudaStreamSynchronize", 10 * number + 5, 4)
    return builder


def deep(count: int = 10_000) -> TraceBuilder:
    builder = TraceBuilder()
    for number in range(count):
        builder.op("aten::add", number, 10 * count - 2 * number)
        builder.function(f"torch/nn.py({number}): call", number, 10 * count - 2 * number)
        builder.call("cudaStreamSynchronize", number + 0.2, 0.5)
    builder.kernel(count + 3, 8, launch=count + 1)
    return builder


def long_names() -> TraceBuilder:
    builder = TraceBuilder()
    for number in range(10):
        at = 100 * number
        builder.function(f"train.py({number}): {LONG}", at, 95)
        builder.kernel(at + 5, 60, launch=at + 1, name=LONG)
        builder.op(LONG, at + 4, 90)
        builder.call("cudaStreamSynchronize", at + 6, 80)
    return builder


@pytest.mark.slow
@pytest.mark.parametrize("make", [many_sites, many_streams, deep, long_names])
def test_a_trace_that_is_made_to_be_slow_is_reported_on_soon(make: Callable[[], TraceBuilder], tmp_path: Path) -> None:
    trace = make().write(tmp_path / "trace.json")
    before, began = yardstick_s(), process_time()
    assert invoke("report", str(trace), "--html", str(tmp_path / "page.html")).exit_code == 0
    took = process_time() - began
    assert took < SOON * max(before, yardstick_s())


@pytest.mark.slow
def test_long_names_are_cut_for_people_and_whole_in_json(tmp_path: Path) -> None:
    trace, page = str(long_names().write(tmp_path / "trace.json")), tmp_path / "page.html"
    result = invoke("report", trace, "--html", str(page))
    assert len(result.stdout) < 20_000
    assert "x" * 3_000 not in page.read_text()
    sites = fitting(invoke("report", trace, "--json", "-").stdout)["traces"][0]["syncs"]["sites"]
    assert {site["op"] for site in sites} == {LONG}


def test_what_a_table_leaves_out_is_counted(tmp_path: Path) -> None:
    builder = many_sites(50)
    for number in range(40):
        builder.kernel(20 * number + 4, 5, launch=20 * number + 2, device=number)
    result = invoke("report", str(builder.write(tmp_path / "trace.json")), "--full")
    assert "and 35 more sites: --json" in result.stdout
    assert "and 24 more GPUs, all in the JSON report" in result.stdout


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
@pytest.mark.parametrize("words", [["report"], ["export", "-o", "-"]])
def test_a_device_without_end_is_no_trace(words: list[str], device: str) -> None:
    result = invoke(*words, device)
    assert is_one_line_error(result)
    assert f"{device}: is not JSON" in result.stderr


BEGINNINGS = (b"{", b"[{", b'{"traceEvents": [')


@pytest.mark.parametrize(
    ("start", "again"),
    [
        *((b"", again) for again in (b" ", b"\n<html>", b"0,1,")),
        *((start, again) for start in BEGINNINGS for again in (b"\0", bytes(range(256)))),
    ],
)
def test_a_pipe_without_end_is_no_trace_however_it_begins(start: bytes, again: bytes, tmp_path: Path) -> None:
    assert "is not JSON" in from_pipe(tmp_path / "pipe", start, again)


def from_pipe(path: Path, start: bytes, again: bytes) -> str:
    """Return what is said of a pipe into which someone writes until nobody reads it."""
    os.mkfifo(path)

    def write() -> None:
        try:
            with path.open("wb") as pipe:
                pipe.write(start)
                while True:
                    pipe.write(again * 1000)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    result = invoke("report", str(path))
    writer.join()
    assert is_one_line_error(result)
    return result.stderr
