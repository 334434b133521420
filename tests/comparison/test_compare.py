"""Comparisons of traces that are built by hand: four steps of 1 ms, times in µs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from detector import FOLDER, WAITS, detector
from quick import slow_but
from recordings import TRACES, analysis_of
from trace_builder import SIDE, TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.comparison import ComparedFigure, Comparison, compare
from pinprof.report.comparison.words import verdict as sentence
from pinprof.trace import read_trace

STEPS = 4
Made = Callable[..., Analysis]


def recording(path: Path) -> Analysis:
    return analyse(read_trace(path))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Return what writes a program and reads it: per step a kernel of 300 µs, a copy of 100 µs of 1 MB, and waits."""
    written = iter(range(100))

    def make(  # noqa: PLR0913  each is what one test changes
        *,
        steps: int = STEPS,
        wait: float = 0,
        function: str = "train.py(3): train",
        memory: str = "Pinned",
        kernels: tuple[float, ...] = (300,) * STEPS,
        kernel: str = "gemm",
        stream: int = 7,
        plain: dict[str, Any] | None = None,
        devices: int = 1,
    ) -> Analysis:
        builder = TraceBuilder()
        if plain:
            builder.metadata["pinprof"] = {"plain": plain}
        if function:
            builder.function(function, 0, 10_000)
        for number, start in enumerate(builder.steps(steps)):
            for device in range(devices):
                builder.kernel(start + 100, kernels[number], launch=start + 50, name=kernel, device=device)
            builder.copy(f"HtoD ({memory} -> Device)", start + 600, 100, launch=start + 590, stream=stream)
            builder.kernel(start + 800, 50, launch=start + 790, name="relu")
            if wait:
                builder.call("cudaDeviceSynchronize", start + 110, wait)
        return recording(builder.write(tmp_path / f"{next(written)}.json"))

    return make


def named(comparison: Comparison, name: str, device: int | None = None) -> ComparedFigure:
    (change,) = (
        figure for figure in comparison.figures if figure.name == name and (device is None or figure.device == device)
    )
    return change


def values(figure: ComparedFigure) -> tuple[float | None, float | None, bool | None]:
    return figure.before.value, figure.after.value, figure.is_within_noise


def test_the_same_trace_twice_has_not_changed(made: Made) -> None:
    one = made(wait=400)
    result = compare(one, one)
    assert result.verdict == "same"
    assert all(figure.difference in {0, None} for figure in result.figures)
    assert {change.status for change in result.waits} == {"same"}
    assert {change.status for change in result.copies} == {"same"}
    assert {change.status for change in result.findings} == {"same"}
    assert result.repinned == ()
    assert result.kernels_alike == 1
    assert result.is_same_program


def test_a_wait_that_is_gone_or_new(made: Made) -> None:
    result = compare(made(wait=400), made())
    (change,) = result.waits
    assert change.status == "gone"
    assert change.before[0].function == "train"
    assert values(change.count) == (1, 0, False)
    assert values(change.stall) == (400_000, 0, False)
    assert values(named(result, "stall_ms")) == (400_000, 0, False)
    (change,) = compare(made(), made(wait=400)).waits
    assert (change.status, change.before, values(change.count)) == ("new", (), (0, 1, False))


@pytest.mark.parametrize(
    ("after", "status"),
    [
        ({"function": "train.py(9): train"}, "same"),  # it stands lower in its file
        ({"function": ""}, "same"),  # one trace does not tell it
        ({"function": "train.py(3): fit"}, "moved"),
        ({"wait": 500}, "changed"),
    ],
)
def test_a_wait_is_known_again_by_its_function(made: Made, after: dict[str, Any], status: str) -> None:
    (change,) = compare(made(wait=400), made(**{"wait": 400, **after})).waits
    assert change.status == status
    assert change.before[0].function == "train"
    assert values(change.stall) == (400_000, after.get("wait", 400) * 1000, status != "changed")


def test_copies_that_are_pinned_show_as_such(made: Made) -> None:
    result = compare(made(memory="Pageable"), made())
    assert [(change.host_memory, change.status) for change in result.copies] == [
        ("pageable", "gone"),
        ("pinned", "new"),
    ]
    (change,) = result.repinned
    assert (change.direction, change.before, change.after) == ("HtoD", "pageable", "pinned")
    assert (change.count, change.bytes) == (1, 1_000_000)
    assert values(named(result, "pageable_bytes")) == (1_000_000, 0, False)
    assert compare(made(), made(memory="Pageable")).repinned[0].after == "pageable"


def test_a_change_within_the_spread_of_the_steps_is_noise(made: Made) -> None:
    result = compare(made(kernels=(290, 310, 300, 300)), made(kernels=(305, 315, 300, 320)))
    assert values(named(result, "kernel_ms")) == (350_000, 360_000, True)  # 340 to 360 against 350 to 370
    result = compare(made(kernels=(290, 310, 300, 300)), made(kernels=(320, 330, 325, 325)))
    assert values(named(result, "kernel_ms")) == (350_000, 375_000, False)  # 340 to 360 against 370 to 380


def test_a_copy_beside_a_kernel_is_no_longer_exposed(made: Made) -> None:
    result = compare(
        made(), made(kernels=(650,) * STEPS, stream=SIDE)
    )  # the copy is from 600 to 700, the kernel to 750
    assert values(named(result, "overlap_fraction")) == (0, 1, False)
    assert values(named(result, "exposed_ms")) == (100_000, 0, False)


def plain(mean: float, p10: float, p90: float) -> dict[str, Any]:
    return {"steps": 20, "mean_ms": mean, "p10_ms": p10, "p90_ms": p90}


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (plain(0.8, 0.75, 0.85), "faster"),
        (plain(0.95, 0.9, 1.0), "same"),
        (plain(1.2, 1.15, 1.25), "slower"),
    ],
)
def test_a_measured_step_is_compared_by_its_percentiles(made: Made, after: dict[str, Any], verdict: str) -> None:
    result = compare(made(plain=plain(1, 0.98, 1.02)), made(plain=after))
    assert result.verdict == verdict
    assert not result.is_estimated
    assert result.step.after.spread == (after["p10_ms"] * 1e6, after["p90_ms"] * 1e6)


def test_an_estimate_is_as_sure_as_its_range(made: Made) -> None:
    estimated = made(wait=400)
    low, high = estimated.profile.estimate.range_ns or (0, 0)
    inside, below = (low + high) / 2e6 * 0.999, low / 1e6 * 0.9
    assert compare(estimated, made(plain=plain(inside, inside, inside))).verdict == "unsure"
    assert compare(estimated, made(plain=plain(below, below, below))).verdict == "faster"


def test_another_program_is_seen_by_its_kernels(made: Made) -> None:
    result = compare(made(), made(kernel="conv"))
    assert result.kernels_alike == pytest.approx(1 / 3)  # relu; gemm and conv are of one each
    assert not result.is_same_program


def test_each_gpu_has_its_figures_and_one_that_only_a_trace_has_is_not_compared(made: Made) -> None:
    result = compare(made(devices=2), made())
    assert values(named(result, "kernel_ms", 0)) == (350_000, 350_000, True)
    other = named(result, "kernel_ms", 1)
    assert (other.before.value, other.difference) == (300_000, None)
    assert other.reason == "after: nothing ran on this GPU"


def test_a_single_step_has_no_noise(made: Made) -> None:
    result = compare(made(steps=1), made(kernels=(310,) * STEPS))
    assert named(result, "kernel_ms").is_within_noise is None


def test_traces_of_different_length_are_compared_per_step(made: Made) -> None:
    result = compare(made(wait=400), made(wait=400, steps=3))
    assert values(named(result, "stall_ms")) == (400_000, 400_000, True)
    assert values(result.copies[0].bytes) == (1_000_000, 1_000_000, True)
    assert result.by_chance == pytest.approx(2 / 35)  # 7 over 3


@pytest.mark.parametrize("swapped", [False, True])
def test_a_trace_of_the_host_alone_is_not_compared_with_one_of_the_gpu(
    tmp_path: Path, made: Made, *, swapped: bool
) -> None:
    builder = TraceBuilder()
    for start in builder.steps(STEPS):
        builder.op("aten::mm", start + 10, 500)
        builder.call("cudaGetDeviceCount", start + 20, 1)  # so that its waits are known: there are none
    host = recording(builder.write(tmp_path / "host.json"))
    result = compare(made(), host) if swapped else compare(host, made())
    side = "after" if swapped else "before"
    assert result.verdict == "unknown"
    assert result.step.reason.startswith(f"{side}: no GPU activities; CUDA was recorded")
    assert (result.waits, result.copies) == ((), ())
    assert result.reasons["waits"].startswith(f"{side}: no GPU activities")
    assert values(named(result, "traced_ms")) == (1_000_000, 1_000_000, True)
    assert sentence(result).endswith("; as traced, 1.00 ms before and 1.00 ms after")
    both = compare(host, host)
    assert both.verdict == "unknown"
    assert both.is_same_program is None


# Recordings of the workloads, and what is known of them


def recorded(before: str, after: str) -> Comparison:
    return compare(analysis_of(TRACES / f"{before}.json.gz"), analysis_of(TRACES / f"{after}.json.gz"))


@pytest.mark.parametrize(
    "name", slow_but(["clean"], ["clean", "loss_item", "pageable_blocking", "small_kernels", "loader_pinned"])
)
def test_two_recordings_of_one_program_have_the_same_step(name: str) -> None:
    result = recorded(name, f"{name}.stack")
    assert result.verdict == "same"
    assert {change.status for change in result.waits} <= {"same", "changed"}
    assert {change.status for change in result.findings} <= {"same"}
    assert result.kernels_alike == 1


def test_the_end_of_the_trace_is_no_spread(tmp_path: Path, made: Made) -> None:
    builder = TraceBuilder()
    for start in builder.steps(STEPS):
        builder.kernel(start + 100, 300, launch=start + 50)
        builder.call("cudaDeviceSynchronize", start + 110, 400)  # idle from 400 to 1100
    result = compare(recording(builder.write(tmp_path / "waits.json")), made())
    assert values(named(result, "bubble_ms")) == (525_000, 0, False)  # 700 in three of four steps
    assert named(result, "bubble_ms").before.spread == (525_000, 700_000)


def test_work_that_runs_beside_that_of_another_step_is_not_counted_twice(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, start in enumerate(builder.steps(STEPS)):
        builder.kernel(start + 100, 1200, launch=start + 50, stream=7 + number)  # each ends 200 after the next began
    one = recording(builder.write(tmp_path / "beside.json"))
    busy = named(compare(one, one), "busy_ms").before
    assert busy.value == 1_050_000  # from 100 to 4300
    assert busy.spread == (1_000_000, 1_200_000)


def test_what_one_trace_is_not_fit_for_is_not_compared_and_the_rest_is(tmp_path: Path, made: Made) -> None:
    builder = TraceBuilder()
    for number in range(12):
        for kernel, name in enumerate([*"abcdefghi", "sgd"]):
            start = 1000 * number + 80 * kernel
            builder.activity("kernel", name, start, 50, correlation=10 * number + kernel, device=0, stream=7)
    without_calls = recording(builder.write(tmp_path / "gpu.json"))
    result = compare(without_calls, made(wait=400))
    stall = named(result, "stall_ms")
    assert (stall.before.value, stall.after.value, stall.difference) == (None, 400_000, None)
    assert stall.reason == "before: no runtime calls; record with ProfilerActivity.CPU too"
    assert (result.waits, result.reasons["waits"]) == ((), stall.reason)
    assert result.findings == ()
    assert result.reasons["findings"] == "before: no runtime calls"
    assert values(named(result, "kernel_ms")) == (500_000, 350_000, False)


def test_a_trace_without_steps_is_not_compared_per_step(tmp_path: Path, made: Made) -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 40, 30)
    builder.kernel(100, 300, launch=50)
    builder.copy("HtoD (Pinned -> Device)", 300, 200, launch=60, stream=SIDE)
    whole = recording(builder.write(tmp_path / "whole.json"))
    result = compare(whole, made())
    reason = "before: no step was found; call profiler.step() once per training step"
    assert (result.verdict, result.step.reason, result.reasons["waits"]) == ("unknown", reason, reason)
    assert named(result, "traced_ms").reason == named(result, "kernel_ms").reason == reason
    assert result.reasons["findings"] == reason
    assert result.kernels_alike is None
    assert named(result, "overlap_fraction").difference == -0.5  # of the whole trace in both
    both = compare(whole, whole)
    assert named(both, "kernel_ms").difference == 0
    assert both.kernels_alike == 1


def test_a_wait_that_left_a_library_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    before, after = (
        recording(detector(waits).write(tmp_path / f"{len(waits)}.json")) for waits in (WAITS, (*WAITS[:1], *WAITS[2:]))
    )
    changes = compare(before, after).waits
    assert [
        (change.status, str(change.members[0].library)) for change in changes if change.status in {"gone", "new"}
    ] == [("gone", f"{FOLDER}/_utils.py:60")]
