"""Sentences of a report on traces that are nearly none: each must be so, and fit the tables below it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from analysed import analysed
from page_reader import Page
from trace_builder import TraceBuilder

from pinprof.comparison import compare
from pinprof.report.comparison import text as compare_text
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


def unmarked(builder: TraceBuilder) -> None:
    """A wait of 410 µs and a copy of unrecorded size, in a trace without steps."""
    builder.copy("HtoD (Host -> Device)", 20, 40, launch=0, size=-1)
    builder.kernel(100, 500, launch=50)
    builder.op("aten::item", 195, 420)
    builder.call("cudaStreamSynchronize", 200, 410)
    builder.kernel(900, 50, launch=880)


def full_queue(builder: TraceBuilder) -> None:
    """Three steps, in each of which a launch takes 300 µs, as CUPTI says for a full queue, and no call waits."""
    for start in builder.steps(3):
        builder.kernel(start + 20, 480, launch=start + 10)
        builder.call("cudaLaunchKernel", start + 100, 300)
        builder.overhead("Command Buffer Full", start + 110, 280)


def copies_on_the_gpu(builder: TraceBuilder) -> None:
    """Exposed copies that no rule is for take 18 % of each step; kernels nearly all the rest."""
    for start in builder.steps(4):
        builder.op("aten::mm", start, 990)
        builder.kernel(start + 10, 805, launch=start + 5)
        builder.copy("PtoP (Device -> Device)", start + 816, 180, launch=start + 20)


def before_the_steps(builder: TraceBuilder, *, loads: bool) -> None:
    """A wait before the steps, or a launch there that loads its code."""
    builder.call("cudaLaunchKernel" if loads else "cudaStreamSynchronize", 0, 60)
    if loads:
        builder.overhead("Lazy Function Loading", 5, 50)
    for number in range(3):
        builder.step(number, 1000 * number + 100, 990)
        builder.kernel(1000 * number + 200, 850, launch=1000 * number + 150)


def no_complete_step(builder: TraceBuilder) -> None:
    builder.step(1, 0, 100)
    builder.step(2, 100, 100)
    builder.kernel(500, 50, launch=450)


def two_gpus(builder: TraceBuilder, first_us: int = 500) -> None:
    for start in builder.steps(4):
        builder.kernel(start + 100, first_us, launch=start + 50)
        builder.kernel(start + 100, 300, launch=start + 60, device=1)


def sleeps_on_the_gpu(builder: TraceBuilder) -> None:
    """A call waits for 300 µs while no work of a GPU is recorded."""
    for start in builder.steps(3):
        builder.kernel(start + 10, 100, launch=start)
        builder.call("cudaStreamSynchronize", start + 500, 300)
    builder.kernel(3010, 10, launch=3000)


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
        assert "the GPU is mostly idle before its first work and after its last" in said
        assert "no copy or wait costs" not in said.lower()
        assert "of each step" not in said
    assert "500 µs of the step lie before its first work or after its last" in text
    assert "consecutive steps" not in page
    assert "All 1 steps" not in page


def test_what_is_of_the_whole_trace_is_not_said_to_be_of_a_step(tmp_path: Path) -> None:
    text, page = texts(unmarked, tmp_path)
    assert "Waits of the host, in the whole trace as traced" in text
    for said in (text, page):
        assert "1 in the whole trace; as traced, the host waits" in said
        assert "per step" not in said.replace("once per training step", "")
        assert "of the step" not in said
        assert "0 B" not in said, "a size that is not recorded"


def test_launches_that_are_held_up_are_no_wait_and_are_said(tmp_path: Path) -> None:
    text, _ = texts(full_queue, tmp_path)
    assert "300 µs of host time in launches that wait because the launch queue is full" in text
    assert "waits for nothing" not in text
    assert "no call of the step waits for the GPU" in text


def test_copies_that_no_rule_is_for_are_not_called_free(tmp_path: Path) -> None:
    for text in texts(copies_on_the_gpu, tmp_path):
        assert "exposed copies" in text.lower()
        assert "no copy or wait costs" not in text.lower()


def test_waits_and_loads_outside_of_the_steps_are_said_to_be_there(tmp_path: Path) -> None:
    text, _ = texts(partial(before_the_steps, loads=False), tmp_path)
    assert "of host time in calls that can block; all of them lie outside of the complete steps" in text
    assert "1 site outside of the complete steps: in the JSON and HTML reports" in text
    assert "GPU idle after" not in text
    text, _ = texts(partial(before_the_steps, loads=True), tmp_path)
    assert "of host time in launches that wait until their code is loaded, all outside of the complete steps" in text


def test_where_no_step_was_searched_nothing_is_not_the_result(tmp_path: Path) -> None:
    for text in texts(no_complete_step, tmp_path):
        assert "No step has GPU work to search" in text


def test_of_several_gpus_the_headline_names_the_one_that_is_idle_or_works(tmp_path: Path) -> None:
    builder = TraceBuilder()
    two_gpus(builder)
    assert "; GPU 0 is idle for" in headline(first_screen(analysed(builder, tmp_path).profile, Findings()))
    for text in texts(partial(two_gpus, first_us=985), tmp_path):
        assert "GPU 0 works for" in text


def test_the_gpu_is_said_to_work_during_a_wait_only_where_it_does(tmp_path: Path) -> None:
    text, _ = texts(sleeps_on_the_gpu, tmp_path)
    assert "costs nothing: the GPU is busy" not in text


def test_the_gpu_is_not_said_to_work_while_what_is_queued_waits(tmp_path: Path) -> None:
    for text in texts(waits_for_what_is_not_recorded, tmp_path):
        assert "costs nothing: the GPU is busy" not in text
        assert "the GPU runs earlier work for 500 µs of that" in text
        assert "queued work of the GPU cannot start yet" in text


@pytest.mark.parametrize("build", [unmarked, one_kernel])
def test_a_comparison_says_of_what_its_figures_are(build: Build, tmp_path: Path) -> None:
    builder = TraceBuilder()
    build(builder)
    side = analysed(builder, tmp_path)
    text = compare_text.comparison_to_text(compare(side, side), width=200)
    per = side.profile.steps.per
    assert f"Figures, {per}" in text
    assert (per == "per step") == (build is one_kernel)
