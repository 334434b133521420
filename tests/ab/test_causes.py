"""What changed between two traces: what differs in number first, then what explains the difference by its time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from host_builder import host_profile
from trace_builder import TraceBuilder

from pinprof.ab.causes import LikelyCause, VersionFiles, find_causes, sort_key
from pinprof.ab.recording import Clocks, ClockWatch
from pinprof.analyses.host_samples import measure_host
from pinprof.analysis import Analysis, analyse
from pinprof.report.ab.text import cause, clocks
from pinprof.trace import read_trace


def traced(folder: Path, name: str, *, kernels: int = 2, each_us: int = 100, copies: int = 0) -> Analysis:
    """Return five steps of 2 ms, each with these kernels, and copies of pageable memory for which the host waits."""
    builder = TraceBuilder()
    for start in builder.steps(5, 2000):
        for kernel in range(kernels):
            at = start + 50 + kernel * (each_us + 20)
            builder.kernel(at, each_us, launch=at - 30)
        for copy in range(copies):
            at = start + 1200 + 200 * copy
            builder.copy("HtoD (Pageable -> Device)", at, 100, launch=at - 40, call=150)
    return analyse(read_trace(str(builder.write(folder / f"{name}.json.gz"))))


@pytest.fixture
def before(tmp_path: Path) -> Analysis:
    return traced(tmp_path, "before")


NO_CODE = VersionFiles(Path(), ()), VersionFiles(Path(), ())


def first(causes: Sequence[LikelyCause]) -> tuple[str, str]:
    return causes[0].kind, cause(causes[0])


def test_more_kernels_are_the_cause(before: Analysis, tmp_path: Path) -> None:
    kind, words = first(find_causes(before, traced(tmp_path, "after", kernels=4), 200e3, NO_CODE))
    assert kind == "kernel"
    assert words.endswith("2 to 4 a step, 200 µs to 400 µs")


def test_a_new_copy_is_the_cause_and_so_is_its_wait(before: Analysis, tmp_path: Path) -> None:
    causes = find_causes(before, traced(tmp_path, "after", copies=1), 150e3, NO_CODE)
    assert {change.kind for change in causes if change.is_certain} >= {"copy", "wait"}
    assert all(change.count and change.count[0] == 0 for change in causes if change.kind in {"copy", "wait"})


def test_slower_kernels_are_a_cause_by_their_time_alone(before: Analysis, tmp_path: Path) -> None:
    causes = find_causes(before, traced(tmp_path, "after", each_us=150), 100e3, NO_CODE)
    assert not causes[0].is_certain
    assert causes[0].kind == "kernel"
    assert not find_causes(before, traced(tmp_path, "after2", each_us=150), 1000e3, NO_CODE)  # it explains too little
    assert find_causes(before, traced(tmp_path, "after3"), 50e3, NO_CODE) == ()  # the same program


def sampled(analysis: Analysis, *stacks: tuple[int, str]) -> Analysis:
    return replace(analysis, profile=replace(analysis.profile, host=measure_host(host_profile(*stacks))))


def test_a_line_in_which_the_host_is_longer_is_the_cause_and_lines_that_moved_are_not(
    before: Analysis, tmp_path: Path
) -> None:
    codes = []
    for name, text in (("a", "go()\nend()\n"), ("b", "go()\nwork()\nend()\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(text)
        codes.append(
            VersionFiles(tmp_path / name, (str(tmp_path / name / "train.py"), str(tmp_path / name / "gone.py")))
        )
    old, new = (90, "train.py:1:main"), (12, "train.py:2:main > torch/nn.py:9:forward")
    one = sampled(before, old, (9, "train.py:2:main"))  # end() is the second line here
    causes = find_causes(one, sampled(before, old, new, (9, "train.py:3:main")), 200e3, (codes[0], codes[1]))
    assert [(change.kind, change.what, change.where) for change in causes] == [("line", "work()", "train.py:2")]
    assert cause(causes[0]).startswith("line: work() (train.py:2): 0 ns to ")
    few = sampled(before, old, (6, "train.py:2:main"), (9, "train.py:3:main"))
    assert find_causes(one, few, 200e3, (codes[0], codes[1])) == ()


def test_a_number_that_explains_a_part_comes_before_other_numbers_and_these_before_times() -> None:
    line, small, large = (
        LikelyCause("line", "work()", "", None, (0.0, 100e3)),
        LikelyCause("op", "aten::empty", "", (1, 2), (1e3, 2e3)),
        LikelyCause("op", "aten::mm", "", (1, 2), (100e3, 200e3)),
    )
    assert sorted([line, small, large], key=lambda change: sort_key(change, 100e3)) == [large, small, line]


def test_what_makes_it_faster_is_not_the_cause_of_a_slow_down(before: Analysis, tmp_path: Path) -> None:
    causes = find_causes(before, traced(tmp_path, "after", kernels=1, copies=1), 100e3, NO_CODE)
    kinds = [(change.kind, change.more_ns > 0) for change in causes]
    assert kinds[0][1]
    assert ("kernel", False) in kinds


def test_clocks_are_told_if_they_differ_or_the_machine_is_busy() -> None:
    quiet, slow = Clocks(3000.0, 1980.0, 0.5, 8), Clocks(3010.0, 1200.0, 12.0, 8)
    assert clocks((quiet, quiet)) == []
    assert clocks((quiet, slow)) == [
        "GPU clock: 1980 to 1200 MHz",
        "the machine is busy: a load of 12.0 on 8 cores",
    ]
    watch = ClockWatch()
    watch.look()
    assert watch.clocks().cores >= 1
