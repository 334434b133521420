"""The recordings in traces/ against their measured truth, and against a plain sweep over their raw events."""

import gzip
import json
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, TypeVar

import pytest
from recordings import TRACES, WORKLOADS, analysis_of, each_recording

from pinprof.analysis import Analysis
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Known, KnownOrWithheld

TRUTH = json.loads((TRACES / "truth.json").read_text())["workloads"]
FILES = [path.name for path in WORKLOADS]
LEAN = {name: f"{name}.json.gz" for name in TRUTH}

Range = tuple[int, int]
T = TypeVar("T")


def loaded(name: str) -> Analysis:
    return analysis_of(TRACES / name)


def profile_of(workload: str) -> Profile:
    return loaded(LEAN[workload]).profile


def known(figure: KnownOrWithheld[T]) -> T:
    assert isinstance(figure, Known)
    return figure.value


@cache
def raw_events(name: str) -> list[dict[str, Any]]:
    events = json.loads(gzip.decompress((TRACES / name).read_bytes()), parse_float=Decimal)["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def raw_ranges(name: str, *categories: str) -> list[Range]:
    return [
        (int(Decimal(event["ts"]) * 1000), int((Decimal(event["ts"]) + Decimal(event["dur"])) * 1000))
        for event in raw_events(name)
        if event["cat"] in categories
    ]


def swept(inside: list[Range], under: list[Range] | None = None) -> int:
    """Return the time in which at least one of `inside` runs, and one of `under` if given, by one sweep in time."""
    marks = [(time, 0, change) for start, end in inside for time, change in ((start, 1), (end, -1))]
    marks += [(time, 1, change) for start, end in under or [] for time, change in ((start, 1), (end, -1))]
    running, total, last = [0, 0], 0, 0
    for time, which, change in sorted(marks):
        if running[0] and (under is None or running[1]):
            total += time - last
        running[which] += change
        last = time
    return total


@pytest.mark.parametrize("name", each_recording(FILES, str))
def test_busy_and_idle_time_equal_a_sweep_over_the_raw_events(name: str) -> None:
    (gpu,) = loaded(name).profile.gpus
    device = known(gpu.time)
    ranges = raw_ranges(name, "kernel", "gpu_memcpy", "gpu_memset")
    assert device.busy_ns == swept(ranges)
    assert device.kernel_ns == swept(raw_ranges(name, "kernel"))
    assert device.span_ns == max(end for _, end in ranges) - min(start for start, _ in ranges)
    assert device.busy_ns + device.idle_ns == device.span_ns
    assert sum(time for _, time in known(gpu.idle_by_cause)) == device.idle_ns


@pytest.mark.parametrize("name", each_recording(FILES, str))
def test_overlap_equals_a_sweep_over_the_raw_events(name: str) -> None:
    profile = loaded(name).profile
    copies, kernels = raw_ranges(name, "gpu_memcpy"), raw_ranges(name, "kernel")
    assert known(profile.copy_ns) == swept(copies)
    assert known(profile.overlap).overlapped_ns == swept(copies, kernels)
    assert sum(known(exposed.exposed_ns) for exposed in profile.exposed) == swept(copies) - swept(copies, kernels)


@pytest.mark.parametrize("name", each_recording(FILES, str))
def test_copies_equal_the_raw_events(name: str) -> None:
    groups = loaded(name).profile.copies
    copied, hidden = [known(group.copied) for group in groups], [known(group.hidden) for group in groups]
    copies = [event for event in raw_events(name) if event["cat"] == "gpu_memcpy"]
    assert sum(group.count for group in copied) == len(copies)
    assert sum(group.bytes or 0 for group in copied) == sum(event["args"]["bytes"] for event in copies)
    assert sum(group.time_ns for group in copied) == sum(int(event["dur"] * 1000) for event in copies)
    assert [group.overlapped_ns + group.exposed_ns for group in hidden] == [group.time_ns for group in copied]


@pytest.mark.parametrize("name", each_recording(FILES, str))
def test_the_parts_of_every_stall_add_up_and_bubbles_are_no_longer_than_the_idle_time(name: str) -> None:
    details = loaded(name).details
    stalls, idle_ns = details.syncs.stalls, sum(device.idle_ns for device in details.devices)
    assert (stalls.stall_ns == stalls.drain_ns + stalls.own_ns + stalls.overhead_ns).all()
    assert (stalls.overhead_ns >= 0).all()
    assert (stalls.bubble_ns >= 0).all()
    assert stalls.bubble_ns.sum() <= idle_ns
    assert sum(site.total.idle_ns for site in details.syncs.sites) <= idle_ns


@pytest.mark.parametrize("name", each_recording(FILES, str))
def test_the_profilers_own_synchronize_is_found_once(name: str) -> None:
    sites = loaded(name).profile.sites
    assert sum(known(site.total).count for site in sites if site.verdict == "profiler") == 1


class Answer(NamedTuple):
    """What is known of a workload: its copies and why they are exposed, and its waits with the code of their lines."""

    copies: tuple[str, str] | None = None
    exposed: str | None = None
    waits: tuple[str, int] | None = None
    """Their cause and number per step."""
    code: tuple[str, ...] = ()
    is_gpu_bound: bool = False
    """Whether the GPU has work all the time, and sets the pace alone."""


TO_GPU, PINNED_TO_GPU = ("HtoD", "pageable"), ("HtoD", "pinned")
COPY, DRAWN = "next(batches).to(device, non_blocking=non_blocking)", "next(running[0]).to(device, non_blocking=True)"
ANSWERS = {
    "pageable_blocking": Answer(TO_GPU, "pageable", ("blocking_copy_htod", 1), (COPY,)),
    "pageable_non_blocking": Answer(TO_GPU, "pageable", ("pageable_copy", 1), (COPY,)),
    "pinned_blocking": Answer(PINNED_TO_GPU, "same_stream", ("blocking_copy_htod", 1), (COPY,), is_gpu_bound=True),
    "pinned_non_blocking": Answer(PINNED_TO_GPU, "same_stream", is_gpu_bound=True),
    "pin_then_copy": Answer(PINNED_TO_GPU, "same_stream", is_gpu_bound=True),
    "prefetch": Answer(PINNED_TO_GPU, is_gpu_bound=True),
    "loss_item": Answer(waits=("item", 1), code=("loss.item()",), is_gpu_bound=True),
    "loss_item_host_work": Answer(waits=("item", 1), code=("loss.item()",)),
    "loader_pageable": Answer(TO_GPU, waits=("pageable_copy", 1), code=(DRAWN,)),
    "loader_pinned": Answer(PINNED_TO_GPU, "same_stream", is_gpu_bound=True),
    "mask_loss": Answer(
        waits=("mask_index", 3), code=("output[labelled], training.target[labelled]", "loss.backward()")
    ),
    "readback_blocking": Answer(("DtoH", "pageable"), waits=("to_cpu", 1), code=("output.detach().cpu()",)),
    "readback_async": Answer(
        ("DtoH", "pinned"),
        waits=("event_synchronize", 1),
        code=("self._copied[1 - slot].synchronize()",),
        is_gpu_bound=True,
    ),
    "empty_cache": Answer(waits=("device_free", 5), code=("torch.cuda.empty_cache()",)),
    "clean": Answer(is_gpu_bound=True),
    "small_kernels": Answer(),
}


@pytest.mark.parametrize("workload", ANSWERS)
def test_a_workload_has_the_copies_and_waits_that_it_makes(workload: str) -> None:
    answer, profile = ANSWERS[workload], profile_of(workload)
    if answer.copies:
        assert [(group.direction, group.host_memory) for group in profile.copies] == [answer.copies]
    if answer.exposed:
        assert [known(exposed.reason) for exposed in profile.exposed] == [answer.exposed]
        assert known(profile.copies[0].hidden).overlapped_ns == 0
    if answer.waits:
        cause, per_step = answer.waits
        waits = sum(known(site.in_steps).count for site in profile.sites if site.cause == cause)
        assert waits == per_step * profile.steps.count
    else:
        assert {site.verdict for site in profile.sites} == {"profiler"}
    if answer.is_gpu_bound:
        traced_ms = (profile.steps.traced_ns or 0) / 1e6
        assert profile.bound == "gpu"
        assert traced_ms == pytest.approx(TRUTH[workload]["plain_ms"]["median"], rel=0.02)


def test_a_host_bound_workload_is_called_so_and_its_traced_step_is_not_taken_for_the_truth() -> None:
    profile = profile_of("small_kernels")
    plain_ns = TRUTH["small_kernels"]["plain_ms"]["median"] * 1e6
    assert profile.bound == "host"
    assert (profile.steps.traced_ns or 0) > 1.3 * plain_ns
    assert profile.estimate.source == "measured"
    assert profile.estimate.step_ns == pytest.approx(plain_ns, rel=0.15)  # two processes, at the mercy of the host


@pytest.mark.parametrize(
    ("workload", "rules"),
    [
        ("prefetch", ["PIN701"]),
        ("clean", ["PIN701"]),
        ("readback_async", ["PIN701"]),
        ("small_kernels", ["PIN601", "PIN603"]),
    ],
)
def test_a_clean_workload_has_full_float32_or_small_kernels_and_nothing_else(workload: str, rules: list[str]) -> None:
    findings = loaded(LEAN[workload]).findings
    assert [finding.rule.id for finding in findings if finding.severity != "low"] == rules


@pytest.mark.parametrize("workload", [name for name, answer in ANSWERS.items() if answer.code])
def test_the_line_of_a_wait_is_the_line_that_waits(workload: str) -> None:
    answer, root = ANSWERS[workload], TRACES.parent
    cause, _ = answer.waits or ("", 0)
    for name in (LEAN[workload], f"{workload}.stack.json.gz"):
        sites = [site for site in loaded(name).profile.sites if site.cause == cause and site.line is not None]
        lines = [(root / str(site.file)).read_text().splitlines()[(site.line or 0) - 1] for site in sites]
        assert all(any(code in line for line in lines) for code in answer.code), lines


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        ("overlap_default_pageable", "pageable"),
        ("overlap_default_pinned", "same_stream"),
        ("overlap_side_pageable", "pageable"),
        ("overlap_side_pinned", None),
    ],
)
def test_of_the_four_ways_to_copy_beside_kernels_one_overlaps(workload: str, reason: str | None) -> None:
    analysis = loaded(LEAN[workload])
    overlap = known(analysis.profile.overlap)
    share = overlap.overlapped_ns / known(analysis.profile.copy_ns)
    rules = {finding.rule.id for finding in analysis.findings}
    if reason is None:
        assert share > 0.6
        assert not {"PIN101", "PIN301"} & rules  # PIN302: the copy begins some 30 µs before the first kernel
        return
    assert share < 0.1
    assert known(analysis.profile.exposed[0].reason) == reason
    assert ("PIN101" if reason == "pageable" else "PIN301") in rules
