"""Sentences of a report on traces that are nearly none: each must be so, and fit the tables below it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from analysed import analysed
from page_reader import Page
from trace_builder import TraceBuilder

from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.report.trace.verdict import headline
from pinprof.rules.rule import Findings

Build = Callable[[TraceBuilder], None]


def one_kernel(builder: TraceBuilder) -> None:
    """The host is there for 1000 µs, the GPU works from 100 to 600."""
    builder.step(1, 0, 1000)
    builder.kernel(100, 500, launch=50)


def full_queue(builder: TraceBuilder) -> None:
    """Three steps, in each of which a launch takes 300 µs, as CUPTI says for a full queue, and no call waits."""
    for start in builder.steps(3):
        builder.kernel(start + 20, 480, launch=start + 10)
        builder.call("cudaLaunchKernel", start + 100, 300)
        builder.overhead("Command Buffer Full", start + 110, 280)


def two_gpus(builder: TraceBuilder, first_us: int = 500) -> None:
    for start in builder.steps(4):
        builder.kernel(start + 100, first_us, launch=start + 50)
        builder.kernel(start + 100, 300, launch=start + 60, device=1)


def waits_for_what_is_not_recorded(builder: TraceBuilder) -> None:
    """A copy waits behind a kernel that is queued, and the GPU is not seen to work before that for 8 ms."""
    builder.op("aten::mm", 45, 10)
    builder.kernel(10, 20, launch=0)
    builder.kernel(8_000, 500, launch=50)
    correlation = builder.call("hipMemcpyWithStream", 100, 8_460)
    name = "Memcpy DtoH (Device -> Host)"
    builder.activity("gpu_memcpy", name, 8_500, 50, correlation=correlation, device=0, stream=7, bytes=256)
    builder.kernel(8_700, 900, launch=8_600)


def texts(build: Build, folder: Path) -> tuple[str, str]:
    """Return the report for the terminal in one line, and the text of the page."""
    builder = TraceBuilder()
    build(builder)
    analysis = analysed(builder, folder)
    page = Page(to_html([analysis])).text.replace("\N{NO-BREAK SPACE}", " ")
    return " ".join(trace_to_text(analysis.profile, analysis.findings, width=200).split()), page


def test_idle_time_around_the_only_work_of_the_only_step_has_no_other_cause_and_is_no_median(tmp_path: Path) -> None:
    text, page = texts(one_kernel, tmp_path)
    for said in (text, page):
        assert "waits for launches" not in said
        assert "no copy or wait costs" not in said.lower()
        assert "of each step" not in said
    assert "500 µs of the step lie before its first work or after its last" in text
    assert "consecutive steps" not in page
    assert "All 1 steps" not in page


def test_launches_that_are_held_up_are_no_wait_and_are_said(tmp_path: Path) -> None:
    text, _ = texts(full_queue, tmp_path)
    assert "300 µs of host time in launches that wait because the launch queue is full" in text
    assert "waits for nothing" not in text
    assert "no call of the step waits for the GPU" in text


def test_of_several_gpus_the_headline_names_the_one_that_is_idle_or_works(tmp_path: Path) -> None:
    builder = TraceBuilder()
    two_gpus(builder)
    assert "; GPU 0 is idle for" in headline(first_screen(analysed(builder, tmp_path).profile, Findings()))
    for text in texts(partial(two_gpus, first_us=985), tmp_path):
        assert "GPU 0 works for" in text


def test_the_gpu_is_not_said_to_work_while_what_is_queued_waits(tmp_path: Path) -> None:
    for text in texts(waits_for_what_is_not_recorded, tmp_path):
        assert "the GPU runs earlier work for 500 µs of that" in text
        assert "bound by GPU" not in text
