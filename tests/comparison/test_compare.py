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
    [(plain(0.8, 0.75, 0.85), "faster"), (plain(0.95, 0.9, 1.0), "same"), (plain(1.2, 1.15, 1.25), "slower")],
)
def test_a_measured_step_is_compared_by_its_percentiles(made: Made, after: dict[str, Any], verdict: str) -> None:
    result = compare(made(plain=plain(1, 0.98, 1.02)), made(plain=after))
    assert result.verdict == verdict
    assert not result.is_estimated
    assert result.step.after.spread == (after["p10_ms"] * 1e6, after["p90_ms"] * 1e6)


def test_traces_of_different_length_are_compared_per_step(made: Made) -> None:
    result = compare(made(wait=400), made(wait=400, steps=3))
    assert values(named(result, "stall_ms")) == (400_000, 400_000, True)
    assert values(result.copies[0].bytes) == (1_000_000, 1_000_000, True)
    assert result.by_chance == pytest.approx(2 / 35)  # 7 over 3


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


def test_a_wait_that_left_a_library_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    before, after = (
        recording(detector(waits).write(tmp_path / f"{len(waits)}.json")) for waits in (WAITS, (*WAITS[:1], *WAITS[2:]))
    )
    changes = compare(before, after).waits
    assert [
        (change.status, str(change.members[0].library)) for change in changes if change.status in {"gone", "new"}
    ] == [("gone", f"{FOLDER}/_utils.py:60")]
