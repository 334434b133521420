"""The cards on top of the page: one step, whose parts add up, the same on the page, in the terminal and in JSON."""

from pathlib import Path
from typing import Any

import pytest
from fitting import fitting
from page_reader import Page
from recordings import OF_A_GPU, TRACES, analysis_of, each_recording, full_text_of, json_of, page_of
from rich.padding import Padding
from trace_builder import SIDE, TraceBuilder

from pinprof.ground.units import duration, percent
from pinprof.measurement.figures import STALL_MS
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile, busiest
from pinprof.measurement.trust.doubt import Withheld, given
from pinprof.report.trace.sections.waits import remarks
from pinprof.report.trace.step import (
    MIN_DRAWN_SHARE,
    BarPart,
    bound_fact,
    division_title,
    stall_facts,
    step_bar,
    step_fact,
    step_parts,
    undivided_facts,
)
from pinprof.report.view import Fact
from pinprof.trace import read_trace

MS = 1e6


def training(plain_ms: float = 0.9, *, annotated: bool = True) -> TraceBuilder:
    """Three steps of 900 µs without the profiler: kernels of 400 µs, copies of 300 µs of which 100 are beside them.

    In the trace they take 1000 µs, and the host stands in the copy from 10 to 700.
    """
    builder = TraceBuilder()
    builder.metadata["pinprof"] = {"plain": {"steps": 9, "mean_ms": plain_ms, "p10_ms": plain_ms, "p90_ms": plain_ms}}
    for number in range(3):
        time = 1000 * number
        if annotated:
            builder.step(number, time, 990)
        builder.op("aten::to", time + 5, 700)
        builder.kernel(time + 100, 400, launch=time + 1)
        builder.copy("HtoD (Pageable -> Device)", time + 400, 300, launch=time + 10, call=690, stream=SIDE)
    return builder


def measured(builder: TraceBuilder, folder: Path) -> Profile:
    return measure(read_trace(builder.write(folder / "trace.json")))


def recorded(name: str) -> Profile:
    return analysis_of(TRACES / f"{name}.json.gz").profile


def test_the_parts_of_a_step_add_up_to_it_and_say_what_they_are_of(tmp_path: Path) -> None:
    profile = measured(training(), tmp_path)
    assert step_fact(profile) == Fact("step", "900 µs", "measured without profiler", is_named=False)
    mean = busiest(profile)
    assert mean
    parts = [part for part in step_parts(profile, mean) if part.ns]
    assert parts == [
        BarPart("kernels", "█", 400_000),
        BarPart("exposed copies", "▓", 200_000),
        BarPart("GPU idle", "░", 300_000, "mostly has no work after a host wait"),
    ]
    assert list(stall_facts(profile)) == [Fact("host stalls", "690 µs", "77 % of the step, in 1 wait")]
    assert division_title(profile, mean) == "Where the step goes on GPU 0: 900 µs, without the profiler"


@pytest.mark.parametrize(("plain_ms", "is_said"), [(0.7, True), (0.9, False)])
def test_more_idle_time_after_waits_than_in_the_step_is_said_to_be_the_profilers(
    tmp_path: Path, plain_ms: float, *, is_said: bool
) -> None:
    said = list(remarks(measured(training(plain_ms), tmp_path)))  # from 700 to 1100, in two of three steps
    sentence = (
        "as traced, the GPU is idle for 267 µs after waits; without the profiler, which slows the host, for 100 µs of "
        "the whole step"
    )
    assert said == [sentence] * is_said


def test_work_that_takes_longer_than_the_step_is_not_cut_and_is_said(tmp_path: Path) -> None:
    profile = measured(training(plain_ms=0.5), tmp_path)
    mean = busiest(profile)
    assert mean
    assert division_title(profile, mean) == (
        "Where the traced step goes on GPU 0: 600 µs, the GPU's work, which takes longer in the trace than the step "
        "without the profiler"
    )
    for of, is_said in ((profile, True), (measured(training(plain_ms=0.9), tmp_path), False)):
        bar = "\n".join(str(line.renderable) for line in step_bar(of, 120) if isinstance(line, Padding))
        assert "exposed copies 200 µs" in bar
        assert ("As traced: the GPU's work, which takes longer in the trace than the step" in bar) is is_said


def test_a_trace_without_steps_has_parts_of_the_trace(tmp_path: Path) -> None:
    profile = measured(training(annotated=False), tmp_path)
    assert step_fact(profile).name == "trace"
    assert all("of the trace" in fact.meaning for fact in stall_facts(profile))


def test_what_the_trace_is_not_fit_for_is_not_divided(tmp_path: Path) -> None:
    builder = training()
    builder.activity("kernel", "k", 2800, 400, correlation=0, device=0, stream=7)  # which no step launched
    profile = measured(builder, tmp_path)
    assert isinstance(profile.mean_steps, Withheld)
    (only,) = undivided_facts(profile)
    assert only.number == "-"
    assert only.meaning.startswith("not shown (")


@pytest.mark.parametrize("path", each_recording(OF_A_GPU, lambda path: path.name.removesuffix(".json.gz")))
def test_cards_bar_terminal_and_json_of_every_recording_agree(path: Path) -> None:
    analysis = analysis_of(path)
    profile, findings = analysis.profile, analysis.findings
    document = fitting(json_of(path))["traces"][0]
    page = Page(page_of(path)).text.replace("\N{NO-BREAK SPACE}", " ")
    terminal = " ".join(full_text_of(path).split())
    mean, limit = busiest(profile), bound_fact(profile)
    assert mean
    assert limit
    assert limit.meaning in page
    assert limit.meaning in terminal
    assert division_title(profile, mean) in terminal
    parts = step_parts(profile, mean, findings.verdict)
    whole = sum(part.ns for part in parts)
    shown = [part for part in parts if part.ns >= MIN_DRAWN_SHARE * whole > 0]
    assert all(f"{part.mark} {part.name} {duration(part.ns)}, {percent(part.ns / whole)}" in terminal for part in shown)
    assert all(f"Host stalls: {fact.number}, {fact.meaning}" in page for fact in stall_facts(profile))
    times = {part.name: part.ns for part in parts}
    assert times["kernels"] == mean.compute_ns - mean.collective_ns + mean.both_ns
    assert (times["exposed copies"], times["GPU idle"]) == (mean.copy_ns, mean.idle_ns)
    alone = "kernels alone" if mean.both_ns else "kernels"
    named = {alone: mean.compute_ns - mean.collective_ns, "collectives alone": mean.collective_ns}
    for label, time in (named | {"exposed copies": mean.copy_ns}).items():
        assert f"{label}: {duration(time)} (" in page or time < MIN_DRAWN_SHARE * mean.length_ns
    _is_told(document, profile)


def _is_told(document: dict[str, Any], profile: Profile) -> None:
    """Check that the JSON report has the mean step of each GPU, and that its sums are those that it had before."""
    names = ("compute", "overlapped", "exposed", "memset", "idle")
    for part, mean in zip(document["step_parts"], profile.parts, strict=True):
        times = (mean.compute_ns, mean.both_ns, mean.copy_ns, mean.memset_ns, mean.idle_ns)
        assert min(times) >= 0
        assert [part[f"{name}_ms"] for name in names] == pytest.approx([time / MS for time in times], abs=1e-6)
        assert part["step_ms"] == pytest.approx(sum(times) / MS, abs=1e-6)
        longest = max(mean.work_ns / MS, document["steps"]["step_ms"])
        assert part["step_ms"] == pytest.approx(longest, abs=1e-6)
    exposed = sum(part["exposed_ms"] for part in document["step_parts"])
    assert exposed == pytest.approx(document["per_step"]["exposed_ms"], abs=1e-5)
    stall_ns = given(STALL_MS.of(profile))
    assert stall_ns is not None
    assert document["per_step"]["stall_ms"] == pytest.approx(stall_ns / MS, abs=1e-6)
