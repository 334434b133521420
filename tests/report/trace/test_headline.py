from pathlib import Path

import pytest
from page_reader import Page
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.report.trace.verdict import FirstAction, advice
from pinprof.trace import Trace, read_trace
from pinprof.verdict.step_limits import LIMITS

PAUSE = (
    "the longest, 8.00 ms, is after aten::mm and before aten::add: that is Python code, a sleep, or a call that is not "
    "recorded"
)


def recorded(folder: Path, *, item: bool = False, busy: bool = False) -> Trace:
    """Three steps of 10 ms: kernels from 0.1 to 0.6, 0.7 to 0.8 and 9.1 to 9.6 ms; the last is launched by an op at 9.

    Between them the host sleeps from 1 to 9 ms or runs an op; if it reads an `item`, it waits for 0.5 ms for it.
    """
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000):
        builder.op("aten::mm", start + 10, 45)
        builder.op("aten::mm", start + 665, 335)
        builder.kernel(start + 100, 500, launch=start + 20)
        builder.kernel(start + 700, 100, launch=start + 680)
        if busy:
            builder.op("aten::sort", start + 1000, 7900)
        if item:
            builder.op("aten::item", start + 60, 600)
            builder.copy("DtoH (Device -> Pinned)", start + 602, 2, launch=start + 80, size=4)
            builder.call("cudaStreamSynchronize", start + 100, 510)
        builder.op("aten::add", start + 9000, 900)
        builder.kernel(start + 9100, 500, launch=start + 9010)
    return read_trace(builder.write(folder / "trace.json"))


def said(trace: Trace) -> tuple[FirstAction, str, str]:
    """Return what to do first, the text for the terminal in one line, and the text of the page."""
    analysis = analyse(trace)
    profile, findings = analysis.profile, analysis.findings
    page = Page(to_html([analysis])).text
    text = " ".join(trace_to_text(profile, findings).split())
    return advice(first_screen(profile, findings)), text, page.replace("\N{NO-BREAK SPACE}", " ")


def test_a_host_that_sleeps_is_told_so_and_not_to_launch_fewer_kernels(tmp_path: Path) -> None:
    top, text, page = said(recorded(tmp_path))
    assert top.sentence == "First: the GPU waits for Python code (PIN603); fixing it saves 8.7 ms (6.8 to 9.1), 87 %."
    assert PAUSE in text
    assert page.count(PAUSE) == 1  # under what to do
    assert "CUDA graphs" not in page


@pytest.mark.parametrize(
    ("name", "first"),
    [
        (
            "mask_loss.stack",
            (
                "`x[mask]` waits for the GPU at pinprof/workloads/waits.py:84 and 1 more site (PIN205); fixing it "
                "saves 540 µs (340 to 660), 5 %, the largest predicted saving; as for the GPU's work: float32 "
                "products without TF32 (PIN701)"
            ),
        ),
        ("overlap_side_pinned", "float32 products without TF32 (PIN701); 682 µs of the GPU's work could run faster"),
        (
            "small_kernels",
            "the GPU waits for launches (PIN601); fixing it saves 2.7 ms (2.1 to 2.7), 89 %; that includes time of ",
        ),
        ("rules/nchw_amp.mended", LIMITS["gpu"].advice),
        ("ranks/sleeping_rank.rank0.after", "a report on all ranks of the job shows whether they transfer"),
    ],
)
def test_the_largest_predicted_saving_comes_first_and_then_what_answers_the_verdict(name: str, first: str) -> None:
    analysis = analysis_of(TRACES / f"{name}.json.gz")
    do = advice(first_screen(analysis.profile, analysis.findings)).do
    assert do is not None
    assert do.startswith(first)


def test_python_before_the_only_work_of_an_only_step_is_found(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 9_000)
    builder.op("aten::empty", 1, 5)
    for number in range(10):
        builder.op("aten::mm", 8_000 + 60 * number, 40)
        builder.kernel(8_020 + 60 * number, 30, launch=8_005 + 60 * number)
    builder.function("train.py(3): load", 10, 8_700)
    builder.function("transformers/image.py(1): preprocess", 20, 7_900)
    builder.function("transformers/image.py(5): resize", 30, 4_000)
    builder.function("transformers/image.py(9): normalize", 4_040, 3_800)
    top, text, _ = said(read_trace(builder.write(tmp_path / "trace.json")))
    assert "PIN603" in top.sentence
    assert "transformers preprocess" in text
