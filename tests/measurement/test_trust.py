"""Each check on a trace that fires it and on a near miss, and what reports then show."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fitting import fitting
from recordings import (
    CORPUS,
    OF_OTHERS,
    ON_THE_HOST,
    RECORDINGS,
    TRACES,
    each_recording,
    recorded_details,
    recorded_profile,
)
from trace_builder import COMPUTE, SIDE, TraceBuilder, without_known_events
from trace_parts import Part, call, event, op

from pinprof.analysis import analyse
from pinprof.check.figures import measure_figures
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURE_KINDS
from pinprof.measurement.trust.doubt import DOUBT_LEVELS, Doubt, FigureKind, withheld_kinds
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.page import to_html
from pinprof.report.trace.text import trace_to_text
from pinprof.rules.search import RULES, unsearched
from pinprof.trace import read_trace
from pinprof.trace.metadata.info import Cut
from pinprof.trace.tables import MEMCPY, NONE

ALWAYS_RIGHT = {"source_lines", "host_memory", "profiler_cost"}
ONE_STEP_UNLIKE = {
    *("e1.pageable-pin_memory.json.gz", "e1.pinned-to.json.gz", "gpt_fast.json.gz"),
    *("saving_rank.rank1.before.json.gz", "small_buckets.rank0.before.json.gz"),
}
NOT_ALONE = {"gpt_fast.json.gz", "kv_batch.json.gz"}
"""What is true of recordings that lack nothing: no stacks, ROCm, and a step that the host bounds."""

STEP_US = 10_000
HOUR_US = 3_600_000_000
LOST = {"busy", "overlap", "causes", "drain", "estimate"}
UNLINKED = {"per_step", "estimate", "causes", "drain"}
APART = {"step", "estimate", "busy", "causes"}
"""What is wrong where the steps are not of one recording without a gap."""
Recording = Callable[[], TraceBuilder]


def steps(
    count: int = 4,
    *,
    kernels: int = 50,
    lost: int = 0,
    lose_in: int | None = None,
    numbers: Callable[[int], int] = int,
    period: int = STEP_US,
    also: Sequence[Part] = (),
) -> TraceBuilder:
    """Return steps of N kernels of 150 µs each; `lost` of each step, or of the one step, leave no activity."""
    builder = TraceBuilder()
    for step in range(count):
        builder.step(numbers(step), period * step, STEP_US - 10)
        for number in range(kernels):
            time = period * step + 100 + 180 * number
            if 0 < number <= lost and lose_in in (None, step):
                builder.call("cudaLaunchKernel", time, 2)
            else:
                builder.kernel(time + 10, 150, launch=time)
    for part in also:
        part(builder)
    return builder


LAUNCHED_AT_THE_END = [call("cudaLaunchKernel", 3 * STEP_US + 9500 + 3 * number, 2) for number in range(20)]
COMPILING = [op("_compile.compile_inner (dynamo_timed)", 1, 70)]
BROKEN = event("cpu_op", "broken", 10, -5)


def one_long_kernel_lost() -> TraceBuilder:
    """Return 4 steps of 50 short kernels and a long one, a third of the step, that step 1 has lost."""
    builder = TraceBuilder()
    for step, begin in enumerate(builder.steps(4, STEP_US)):
        for number in range(50):
            builder.kernel(begin + 20 + 130 * number, 125, launch=begin + 10 + 2 * number)
        if step == 1:
            builder.call("cudaLaunchKernel", begin + 112, 2)
        else:
            builder.kernel(begin + 6520, 3000, launch=begin + 112)
    return builder


def with_call_in_each_step(name: str, *more: str) -> TraceBuilder:
    builder = steps(kernels=10)
    for step in range(4):
        for nth, called in enumerate((name, *more)):
            builder.call(called, STEP_US * step + 5000 + 10 * nth, 5)
    return builder


def captured() -> TraceBuilder:
    return with_call_in_each_step(
        "cudaStreamBeginCapture", "cudaLaunchKernel", "cudaLaunchKernel", "cudaStreamEndCapture"
    )


def graphs(*work: int, steps: int = 4) -> TraceBuilder:
    """Return steps with a launch of a graph of N kernels each."""
    builder = TraceBuilder()
    for step, time in enumerate(builder.steps(steps, STEP_US)):
        builder.kernel(time + 20, 10, launch=time + 10)
        correlation = builder.call("cudaGraphLaunch", time + 100, 5)
        for number in range(work[step % len(work)]):
            builder.activity("kernel", "k", time + 200 + 20 * number, 15, correlation=correlation, device=0, stream=7)
        builder.kernel(time + 9000, 10, launch=time + 8900)
    return builder


def losing(first: int, last: int, *, calls: bool = False) -> TraceBuilder:
    """Return 4 steps of 30 ops; of all launches, those between these numbers leave no kernels, or nothing."""
    builder = TraceBuilder()
    for step, start in enumerate(builder.steps(4, STEP_US)):
        for number in range(30):
            time = start + 100 + 300 * number
            builder.op(("aten::mm", "aten::add", "aten::relu")[number % 3], time - 5, 20)
            lost = first <= 30 * step + number < last
            if not lost:
                builder.kernel(time + 10, 150, launch=time)
            elif not calls:
                builder.call("cudaLaunchKernel", time, 2)
    return builder


def on_the_host(number: int, ops: int = 6, *, also: Sequence[Part] = ()) -> TraceBuilder:
    """Return 4 steps of 30 ops that launch; before them, in the first N, some of the same names launch nothing."""
    builder = losing(0, 0)
    for step in range(number):
        for nth in range(ops):
            builder.op(("aten::mm", "aten::add")[nth % 2], STEP_US * step + 2 + 10 * nth, 5)
    for part in also:
        part(builder)
    return builder


def queued(kernels: int, lost: int) -> TraceBuilder:
    """Return 4 steps of a GPU that first runs a copy and N kernels of before; the last of these are lost."""
    builder = TraceBuilder()
    for step, start in enumerate(builder.steps(4, STEP_US)):
        for number in range(50):
            launch = start + 100 + 180 * number
            builder.kernel(100 + 200 * (kernels + 50 * step + number), 200, launch=launch)
    for number in range(kernels - lost):
        builder.activity("kernel", "before", 100 + 200 * number, 200, correlation=0, device=0, stream=COMPUTE)
    builder.activity(
        "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 100, correlation=0, device=0, stream=COMPUTE, bytes=8
    )
    return builder


def unlinked(count: int) -> TraceBuilder:
    builder = steps()
    for number in range(count):
        builder.activity("kernel", "lost", 9100 + 20 * number, 15, correlation=0, device=0, stream=COMPUTE)
    return builder


def early(lead_us: float) -> TraceBuilder:
    """Return 120 kernels on a stream that is idle before each, that start so much before their launch."""
    builder = TraceBuilder()
    for start in builder.steps(4, STEP_US):
        for number in range(30):
            time = start + 100 + 300 * number
            builder.kernel(time - lead_us, 100, launch=time)
    return builder


def beside_each_other(overlap_us: float) -> TraceBuilder:
    builder = TraceBuilder()
    for start in builder.steps(4):
        for number in range(4):
            builder.kernel(start + 100 + (100 - overlap_us) * number, 100, launch=start + 10 + number)
    return builder


def held_up(us: float, *others: Part, is_busy: bool = False) -> TraceBuilder:
    """Return steps of ten kernels of 150 µs; three start late by `us`, while `is_busy` another kernel runs."""
    builder = steps(kernels=10)
    for step in range(4):
        for nth in range(3):
            time = STEP_US * step + 3000 + 2000 * nth
            builder.kernel(time + 2 + us, 20, launch=time)
            if is_busy:
                builder.kernel(time + 5, us, launch=time - 20, stream=SIDE)
    for part in others:
        part(builder)
    return builder


def two_processes(*, device: int, launches: bool = True) -> TraceBuilder:
    builder = steps()
    for step in range(4):
        time = STEP_US * step + 9300
        correlation = builder.call("cudaLaunchKernel" if launches else "cudaGetDeviceCount", time, 2, thread=555)
        builder.events[-1]["pid"] = 555
        if launches:
            builder.activity("kernel", "theirs", time + 9, 20, correlation=correlation, device=device, stream=SIDE)
    return builder


def after_a_pause(us: int) -> TraceBuilder:
    builder = steps(3)
    for number in range(3, 6):
        builder.step(number, us + STEP_US * number, STEP_US - 10)
        for kernel in range(50):
            time = us + STEP_US * number + 100 + 180 * kernel
            builder.kernel(time + 10, 150, launch=time)
    return builder


def timed(plain_ms: float) -> TraceBuilder:
    builder = steps()
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "mean_ms": plain_ms, "p10_ms": plain_ms, "p90_ms": plain_ms}}
    return builder


def of_calls_alone() -> TraceBuilder:
    builder = TraceBuilder()
    for start in range(0, 90_000, 30_000):  # in between, the host may compile
        builder.kernel(start + 20, 900, launch=start + 10)
    return builder


def numbered(every: int) -> TraceBuilder:
    """Return steps with 200 ops, each the `every`th that torch numbered."""
    builder = steps()
    for number in range(200):
        builder.event("cpu_op", "aten::mm", number, 1, **{"Ev Idx": number * every})
    return builder


def entries(builder: TraceBuilder) -> dict[str, set[str]]:
    """Return what each check that fires invalidates."""
    return {entry.check: set(entry.withholds) for entry in measure(builder.read()).doubts}


FIRES: dict[str, tuple[Recording, str, set[str]]] = {
    "a tenth of the kernels": (lambda: steps(lost=5), "lost_launches", LOST),
    "one kernel of 200": (lambda: steps(lost=1, lose_in=1), "lost_launches", set()),
    "one long kernel of 204": (one_long_kernel_lost, "lost_launches", LOST),
    "all copies": (lambda: with_call_in_each_step("cudaMemcpyAsync"), "lost_launches", LOST | {"copies", "step"}),
    "kernels of HIP": (lambda: with_call_in_each_step("hipExtModuleLaunchKernel"), "lost_launches", LOST | {"step"}),
    "most of a step": (lambda: steps(lost=40, lose_in=2), "lost_steps", LOST | {"copies"}),
    "steps 0 1 3 4": (lambda: steps(numbers=lambda step: step + (step > 1)), "skipped_steps", APART),
    "one step of 101": (lambda: steps(100, kernels=9, numbers=lambda step: step + (step > 50)), "skipped_steps", set()),
    "a graph without work": (lambda: graphs(40, 0, 40, 40), "lost_graph_work", LOST),
    "a graph with half of its work": (lambda: graphs(40, 40, 20, 40), "lost_graph_work", LOST),
    "launched when the recording ends": (lambda: steps(also=LAUNCHED_AT_THE_END), "lost_launches", LOST | {"step"}),
    "the first kernels, so that a step is cut off": (lambda: losing(0, 24), "lost_launches", LOST),
    "the first four kernels": (lambda: losing(0, 4), "lost_launches", LOST),
    "the last four kernels": (lambda: losing(116, 120), "lost_launches", LOST | {"step"}),
    "the first launches": (lambda: losing(0, 24, calls=True), "lost_calls", LOST | {"copies"}),
    "launches in the middle": (lambda: losing(50, 60, calls=True), "lost_calls", LOST | {"copies", "step"}),
    "the last launches, of a cut step": (lambda: losing(110, 120, calls=True), "lost_calls", LOST | {"copies"}),
    "silent ops in 3 of 4 steps": (lambda: on_the_host(3), "lost_calls", LOST | {"copies", "step"}),
    "kernels that were queued before": (lambda: queued(20, lost=10), "lost_start", LOST),
    "a graph of a step that is cut off": (lambda: graphs(40, 0, *[40] * 8, steps=10), "lost_graph_work", LOST),
    "5 of 205": (lambda: unlinked(5), "unlinked_activities", UNLINKED),
    "1 of 201": (lambda: unlinked(1), "unlinked_activities", set()),
    "100 µs early": (lambda: early(100), "clock_skew", {"stalls", "drain", "causes", "estimate"}),
    "5 µs early": (lambda: early(5), "clock_skew", set()),
    "a fifth of each kernel": (lambda: beside_each_other(20), "same_stream_overlap", set()),
    "12 of 52 kernels, by 0.7 ms": (lambda: held_up(700), "shared_gpu", set()),
    "on one GPU": (lambda: two_processes(device=0), "several_processes", set(FIGURE_KINDS)),
    "on a GPU each": (lambda: two_processes(device=1), "several_processes", {"step", "estimate", "per_step", "causes"}),
    "steps 0 1 0 1": (lambda: steps(numbers=lambda step: step % 2), "several_sessions", APART),
    "an hour": (lambda: after_a_pause(HOUR_US), "several_sessions", APART),
    "10 ms for 8": (lambda: timed(8), "profiler_cost", set()),
    "calls alone": (of_calls_alone, "no_ops", {"causes", "estimate"}),
    "each 50th op": (lambda: numbered(50), "lost_ops", set(map(str, FIGURE_KINDS)) - {"step"}),
    "10 ms for 50": (lambda: timed(50), "other_steps", {"estimate"}),
    "a negative duration": (lambda: steps(also=[BROKEN]), "unusable_events", set()),
    "copies and kernels": (
        lambda: with_call_in_each_step("cudaMemcpyAsync", "cudaLaunchKernel"),
        "lost_launches",
        LOST | {"copies", "step"},
    ),
}


@pytest.mark.parametrize(("recording", "check", "invalid"), FIRES.values(), ids=FIRES)
def test_a_check_fires_and_says_which_figures_are_wrong(recording: Recording, check: str, invalid: set[str]) -> None:
    assert entries(recording())[check] == invalid


NEAR_MISSES: dict[str, Recording] = {
    "nothing is wrong": steps,
    "kernels that were queued before and are all there": lambda: queued(20, lost=0),
    "an op that launched nothing": lambda: losing(0, 1, calls=True),
    "ops on tensors of the host, as many in each step": lambda: on_the_host(4),
    "ops on tensors without data, while torch compiles": lambda: on_the_host(1, also=COMPILING),
    "captured into a graph": captured,
    "memsets, which CUPTI leaves out": lambda: with_call_in_each_step("cudaMemsetAsync"),
    "a function on the host": lambda: with_call_in_each_step("cudaLaunchHostFunc"),
    "a graph with all of its work": lambda: graphs(40),
    "a graph with 95 % of its work": lambda: graphs(40, 38, 40, 40),
    "graphs of different sizes": lambda: graphs(10, 20, 30, 40),
    "clocks that agree to 1.5 µs": lambda: early(1.5),
    "a hundredth of each kernel": lambda: beside_each_other(1),
    "held up by 0.09 ms": lambda: held_up(90),
    "behind a kernel on another stream": lambda: held_up(700, is_busy=True),
    "late where other ranks may be waited for": lambda: held_up(700, lambda job: job.collective(9500, 10, launch=9480)),
    "late where the host may be waited for": lambda: held_up(700, call("cudaLaunchHostFunc", 9500, 5)),
    "a process that launches nothing": lambda: two_processes(device=0, launches=False),
    "10 ms for 9.5": lambda: timed(9.5),
    "each op": lambda: numbered(1),
    "steps from 100 on": lambda: steps(numbers=lambda step: 100 + step),
}


@pytest.mark.parametrize("recording", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_near_miss_is_not_reported(recording: Recording) -> None:
    assert (
        not entries(recording()).keys() - ALWAYS_RIGHT - ({"same_stream_overlap"} if recording is captured else set())
    )


def test_kernels_that_are_held_up_are_counted_and_timed() -> None:
    doubt = measure(held_up(700).read()).doubt("shared_gpu")
    assert doubt
    span = 3 * STEP_US + 7722 - 110  # from the first kernel to the end of the last late one
    assert doubt.what.startswith(f"12 kernels started 700 µs late on average, {12 * 700 / span:.0%}".replace("%", " %"))


def test_a_single_wrong_time_does_not_mean_that_clocks_are_apart() -> None:
    builder = early(-10)  # 120 kernels, none early
    kernels = [event for event in builder.events if event["cat"] == "kernel"]
    kernels[50]["ts"] -= 110
    assert entries(builder)["clock_skew"] == set()


def test_a_file_that_was_cut_is_said() -> None:
    trace = steps().read()
    doubt = measure(replace(trace, cut=Cut("the JSON ends too early; copy it again", None))).doubt("truncated")
    assert doubt
    assert doubt.level == "invalid"
    assert doubt.withholds == {"busy", "causes"}
    assert measure(trace).doubt("truncated") is None


def remedies(builder: TraceBuilder) -> dict[str, str]:
    """Return the way out that each check names."""
    return {entry.check: entry.remedy for entry in measure(builder.read()).doubts}


def test_lines_are_missed_only_where_there_is_a_wait_or_a_copy_to_locate() -> None:
    def effect(builder: TraceBuilder) -> str | None:
        doubt = measure(builder.read()).doubt("source_lines")
        return doubt.effect if doubt else None

    builder = steps()
    assert effect(builder) is None
    builder.call("cudaStreamSynchronize", 50, 1)
    assert effect(builder) == "files and functions of waits are unknown"
    builder.copy("HtoD (Pinned -> Device)", 70, 2, launch=65)
    assert effect(builder) == "files and functions of waits and copies are unknown"


def test_who_recorded_with_pinprof_is_not_told_to_do_so() -> None:
    builder = steps()
    builder.call("cudaStreamSynchronize", 50, 1)
    assert "pinprof run" in remedies(builder)["source_lines"]
    builder.metadata["pinprof"] = {"pinprof_version": "0", "marker": "step()", "plain": None}
    assert "line_steps" in remedies(builder)["source_lines"]
    host = TraceBuilder()
    host.op("aten::add", 0, 10)
    assert "ProfilerActivity.CUDA" in remedies(host)["no_gpu"]
    host.metadata["pinprof"] = {"pinprof_version": "0", "marker": "step()", "plain": None}
    assert "ProfilerActivity" not in remedies(host)["no_gpu"]


def test_no_gpu_is_asked_for_where_there_is_one_or_another_accelerator() -> None:
    launched = TraceBuilder()
    launched.call("cudaLaunchKernel", 10, 2)
    assert "so there is a GPU" in remedies(launched)["no_gpu"]
    other = TraceBuilder()
    other.event("mtia_ccp_events", "x", 0, 1)
    assert "Meta's MTIA (mtia_ccp_events)" in remedies(other)["no_gpu"]


def test_a_trace_without_gpu_work_says_why_as_far_as_it_shows() -> None:
    builder = TraceBuilder()
    builder.event("overhead", "x", 0, 1)
    assert remedies(builder)["no_gpu"].startswith("no op ran between the start")
    builder.op("aten::addmm", 0, 10)
    assert remedies(builder)["no_gpu"] == "record with ProfilerActivity.CUDA on a machine with a GPU"
    builder.metadata["deviceProperties"] = [{"id": 0, "name": "NVIDIA A100"}]
    assert remedies(builder)["no_gpu"].startswith("there is a GPU (NVIDIA A100), and no call of CUDA was recorded")
    builder.call("cudaDeviceSynchronize", 20, 1)
    on_host = (
        "there is a GPU (NVIDIA A100), CUDA was recorded, and the program launched nothing: its model and data are"
    )
    assert remedies(builder)["no_gpu"].startswith(on_host)


@pytest.mark.parametrize(
    ("category", "vendor"),
    [
        ("xpu_runtime", "Intel's XPU"),
        ("xpu_driver", "Intel's XPU"),
        ("hpu_op", "Intel's Gaudi"),
        ("mtia_runtime", "Meta's MTIA"),
        ("privateuse1_runtime", "a PrivateUse1 device, such as Ascend's NPU"),
        ("new_runtime", "the new device"),
    ],
)
def test_calls_of_other_vendors_divide_the_step_and_tell_nothing_of_waits(category: str, vendor: str) -> None:
    builder = steps()
    for recorded in builder.events:
        if recorded["cat"] == "cuda_runtime":
            recorded["cat"], recorded["name"] = category, "urEnqueueKernelLaunch"
    trace = builder.read()
    profile = measure(trace)
    (doubt,) = [doubt for doubt in profile.doubts if doubt.check == "no_calls"]
    assert doubt.what == f"only calls of {vendor} ({len(trace.calls)} {category})"
    assert doubt.withholds == {"stalls", "causes", "drain", "estimate"}
    known = measure(steps().read())
    assert profile.parts
    assert [mean.work_ns for mean in profile.parts] == [mean.work_ns for mean in known.parts]


def test_an_estimate_that_is_not_given_is_not_announced() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.step(2, 100, 100)
    builder.kernel(500, 50, launch=450)
    doubt = measure(builder.read()).doubt("profiler_cost")
    assert doubt
    assert doubt.effect.startswith("the trace does not show it")


def test_the_gravest_comes_first() -> None:
    builder = steps(lost=5, also=[BROKEN, call("cudaStreamSynchronize", 50, 1)])  # the line of the wait is unknown
    levels = [DOUBT_LEVELS.index(entry.level) for entry in measure(builder.read()).doubts]
    assert levels == sorted(levels)
    assert set(levels) == {0, 1, 2}


# ---------------------------------------------------------------- recordings


def test_half_an_hour_between_steps_is_a_step_unlike_the_others_and_no_second_recording() -> None:
    assert entries(after_a_pause(HOUR_US // 2)).keys() - ALWAYS_RIGHT == {"irregular_steps"}


@pytest.mark.parametrize("path", each_recording(RECORDINGS))
def test_our_recordings_raise_no_false_alarm(path: Path) -> None:
    unlike = {"irregular_steps"} if path.name in ONE_STEP_UNLIKE else set()
    unlike |= {"shared_gpu"} if path.name in NOT_ALONE else set()
    absent = {"no_gpu"} if path in ON_THE_HOST else set()
    assert {entry.check for entry in recorded_profile(path).doubts} <= ALWAYS_RIGHT | unlike | absent


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS.parent.name}/{CORPUS.name} is missing")
@pytest.mark.parametrize("path", OF_OTHERS, ids=lambda path: path.name)
def test_recordings_of_others_raise_no_false_alarm(path: Path) -> None:
    trace = recorded_details(path).trace
    absent = {"no_gpu"} if not len(trace.gpu) else set()
    marks = {"no_step_marks"} if trace.steps.source == "whole_trace" else set()
    sizes = {"copy_sizes"} if (trace.gpu.bytes[trace.gpu.category == MEMCPY] == NONE).any() else set()
    earlier = {"queued_before"} if path.name == "tracelens_vllm_graph_execution.json.gz" else set()
    # A quarter of the one is CUDA's start before the first launch and cuBLAS's in the first linear; two thirds of the
    # other is its first launch of a kernel.
    once = {"one_time"} if path.name in ("hta_cupti_counters.json.gz", "hta_rocm_mi250.json.gz") else set()
    sample = {"lost_ops"} if path.name in ("hta_rank0.json.gz", "hta_rank1.json.gz") else set()
    bare = {"no_ops"} if path.name == "tracelens_mi210_gpu_only.json.gz" else set()
    expected = ALWAYS_RIGHT | absent | marks | sizes | earlier | once | sample | bare
    assert {entry.check for entry in recorded_profile(path).doubts} <= expected


# ---------------------------------------------------------------- reports


def copying(*, every_second_is_lost: bool) -> TraceBuilder:
    """Return steps with a wait, and a copy of pageable memory, and lose every other kernel."""
    builder = TraceBuilder()
    for time in builder.steps(4):
        builder.copy("HtoD (Pageable -> Device)", time + 30, 100, launch=time + 10, call=125)
        builder.kernel(time + 210, 100, launch=time + 200)
        if every_second_is_lost:
            builder.call("cudaLaunchKernel", time + 320, 2)
        else:
            builder.kernel(time + 330, 100, launch=time + 320)
        builder.op("aten::item", time + 500, 60)
        builder.call("cudaStreamSynchronize", time + 505, 50)
        builder.kernel(time + 710, 100, launch=time + 700)
    return builder


def reports(builder: TraceBuilder) -> tuple[Profile, str, str, dict[str, Any]]:
    analysis = analyse(builder.read())
    profile, findings = analysis.profile, analysis.findings
    document = fitting(traces_to_json([(profile, findings)]))["traces"][0]
    page = to_html([analysis]).replace("\N{NO-BREAK SPACE}", " ")
    return profile, trace_to_text(profile, findings, width=140), page, document


def withheld(profile: Profile) -> set[str]:
    return {figure for figure in FIGURE_KINDS if getattr(profile.withheld, figure)}


def test_what_is_wrong_is_not_printed() -> None:
    profile, text, page, document = reports(copying(every_second_is_lost=True))
    assert withheld(profile) == LOST
    assert profile.bound is None
    assert profile.estimate.step_ns is None
    assert "- no GPU work of 4 launches (25 %)" in text
    assert text.index("Before you trust this trace") < text.index("\nStep\n")
    assert "        -  where it goes: not shown (no GPU work of 4 launches (25 %))" in text
    assert "overlap: not shown" in text
    assert "- why copies are exposed: not shown" in text
    assert "Some rules were not checked: no GPU work of 4 launches (25 %)" in text
    where = "Where it goes: -, not shown (no GPU work of 4 launches (25 %))"
    assert page.index("Before you trust this trace") < page.index(where)
    assert document["gpu"][0] == dict.fromkeys(("busy_ms", "kernel_ms", "memcpy_ms", "idle_ms", "span_ms")) | {
        "device": 0
    }
    assert document["overlap"]["exposed_ms"] is document["overlap"]["fraction"] is None
    assert document["overlap"]["copy_ms"] == pytest.approx(0.4)
    assert document["copies"][0]["exposed_ms"] is None
    assert document["copies"][0]["time_ms"] == pytest.approx(0.4)
    assert [site["stall_ms"] for site in document["syncs"]["sites"]] != [None] * 2
    assert {site["bubble_ms"] for site in document["syncs"]["sites"]} == {None}
    assert document["idle"] == [{"device": 0, "cause": None, "time_ms": None}]
    assert document["steps"]["step_ms"] is document["steps"]["bound"] is None
    assert document["steps"]["traced_ms"] == pytest.approx(1)
    assert document["findings"] == []
    (entry,) = (entry for entry in document["missing"] if entry["level"] == "invalid")
    assert entry["check"] == "lost_launches"
    assert set(entry["invalidates"]) == LOST


def test_a_recording_that_was_cut_before_its_steps_is_not_held_against_its_step(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress((TRACES / "mask_loss.json.gz").read_bytes())[:150_000])
    profile = measure(read_trace(path))
    assert profile.steps.source == "whole_trace"
    assert profile.estimate.step_ns is not None  # as measured in the run
    doubts = {entry.check: entry for entry in profile.doubts}
    assert "profiler_cost" not in doubts
    assert doubts["no_gpu"].remedy == doubts["no_step_marks"].remedy == doubts["truncated"].remedy


@pytest.mark.parametrize(
    "recording",
    [
        *(lambda: two_processes(device=0), lambda: two_processes(device=1)),
        *(lambda: steps(numbers=lambda step: step % 2), lambda: early(100), lambda: unlinked(50)),
        *(lambda: graphs(40, 0, 40, 40), without_known_events),
    ],
)
def test_withheld_figures_of_every_kind_have_reports(recording: Recording) -> None:
    profile, text, page, document = reports(recording())
    assert withheld(profile)
    assert "Before you trust this trace" in text
    assert "Before you trust this trace" in page
    assert [entry["what"] for entry in document["missing"]] == [entry.what for entry in profile.doubts]


@pytest.mark.parametrize("figure", FIGURE_KINDS)
def test_a_report_says_why_some_rules_are_silent_where_they_are(figure: FigureKind) -> None:
    doubt = Doubt("a doubt", "its effect", "a remedy", frozenset({figure}))
    profile = replace(measure(steps().read()), doubts=(doubt,), withheld=withheld_kinds([doubt]))
    are_silent = any(figure in rule.rests_on for rule in RULES)
    assert unsearched(profile) == (doubt if are_silent else None)


def test_stalls_that_are_withheld_are_not_none_where_there_is_no_wait() -> None:
    profile, _, _, document = reports(without_known_events())
    assert profile.withheld.stalls
    assert document["syncs"] == {
        "count": None,
        "per_step": None,
        "stall_ms": None,
        "sites": [],
        "groups": [],
        "watched_steps": None,
        "seen_elsewhere": [],
    }


def test_limits_are_not_kept_by_figures_that_are_withheld() -> None:
    figures = measure_figures(analyse(copying(every_second_is_lost=True).read())).figures
    for key in ("max_exposed_ms", "min_overlap", "max_step_ms", "max_hidden_syncs", "max_stall_ms"):
        assert figures[key].value is None
        assert "no GPU work of 4 launches" in figures[key].note
    assert figures["max_stall_ms"].low > 0, "how long the host stood there at least is known"


def of_no_time(builder: TraceBuilder, category: str) -> TraceBuilder:
    for recorded in builder.events:
        if recorded["cat"] == category:
            recorded["dur"] = 0
    return builder


def waiting_apart(field: str) -> TraceBuilder:
    """Return steps whose waits have lost the process or the thread that they belong to."""
    builder = waiting()
    for recorded in builder.events:
        if recorded["name"] == "cudaStreamSynchronize":
            del recorded[field]
    return builder


@pytest.mark.parametrize(
    ("recording", "key", "why"),
    [
        (lambda: waiting_apart("tid"), "max_hidden_syncs", "no op around 3 waits of the host"),
        (lambda: waiting_apart("pid"), "max_stall_ms", "no op around 3 waits of the host"),
        (
            lambda: of_no_time(copying(every_second_is_lost=False), "gpu_memcpy"),
            "min_overlap",
            "no time of 4 of 4 copies",
        ),
        (
            lambda: of_no_time(copying(every_second_is_lost=False), "gpu_memcpy"),
            "max_exposed_ms",
            "no time of 4 of 4 copies",
        ),
    ],
)
def test_limits_are_not_kept_by_events_that_cannot_be_placed_or_have_no_time(
    recording: Callable[[], TraceBuilder], key: str, why: str
) -> None:
    figure = measure_figures(analyse(recording().read())).figures[key]
    assert figure.value is None
    assert why in figure.note


def waiting() -> TraceBuilder:
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.kernel(start + 10, 5, launch=start + 2)
        builder.op("aten::item", start + 100, 30)
        builder.call("cudaStreamSynchronize", start + 105, 20)
    return builder


@pytest.mark.parametrize(
    ("metadata", "remedy"),
    [
        ({}, "record with pinprof.profile or pinprof run; with_stack=True of torch.profiler gives functions"),
        ({"pinprof": {"marker": "p.step()"}}, "pinprof recorded it without lines, or the program ended before"),
        (
            {"pinprof": {"marker": "p.step()"}, "pinprof_contexts": {"names": [], "lines": [], "waits": []}},
            "pinprof recorded lines, but none for these waits",
        ),
    ],
)
def test_the_way_to_source_lines_fits_the_recording(metadata: dict[str, Any], remedy: str) -> None:
    builder = waiting()
    builder.metadata |= metadata
    profile = reports(builder)[0]
    (doubt,) = (entry for entry in profile.doubts if entry.what == "source lines")
    assert doubt.remedy.startswith(remedy)
    assert doubt.effect == "files and functions of waits are unknown"
