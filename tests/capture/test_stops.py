"""What keeps the host's thread from running: noted by the journal, read from the trace, and said by the rules."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import to_builtins
from trace_builder import TraceBuilder

from pinprof.capture.observe.stops import Stops
from pinprof.measurement.measure import measure
from pinprof.prediction.predict import Saving
from pinprof.report.words import worth
from pinprof.rules.rule import Finding
from pinprof.rules.search import find
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import RUN_KEY, Collections, HostStops, RunLog

US = 1000
LOG = RunLog(1, (("plain", 100),), (1_000_000,) * 100, (0,) * 100, (0,) * 100, (0,) * 100, 6)


@pytest.fixture
def stops(no_recording: None) -> Iterator[Stops]:
    noted = Stops()
    gc.disable()
    with noted.watching():
        yield noted
    gc.enable()


def test_collections_in_a_step_are_summed_by_generation(stops: Stops) -> None:
    gc.collect(0)
    stops.resume()  # that was before the step
    for generation in (2, 0, 0):
        gc.collect(generation)
    stops.end_step("plain")
    sums = stops.sums()
    assert [(of.generation, of.count) for of in sums.collections] == [(0, 2), (2, 1)]
    assert all(0 < of.longest_ns <= of.ns for of in sums.collections)
    assert sums.steps == 1


@pytest.mark.parametrize("window", ["warm-up", "recorded", "lines", "watch"])
def test_steps_under_a_profiler_and_of_the_warm_up_are_left_out(stops: Stops, window: str) -> None:
    gc.collect()
    stops.end_step(window)
    assert stops.sums() == HostStops()


def test_the_line_that_asks_for_collections_is_known(stops: Stops) -> None:
    for _ in range(3):
        gc.collect()
        stops.end_step("plain")
        stops.resume()
    asked = stops.sums().asked_at
    assert asked is not None
    assert (Path(asked.file or "").name, asked.function) == (
        Path(__file__).name,
        "test_the_line_that_asks_for_collections_is_known",
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="which call an instruction makes is known from Python 3.11 on")
def test_a_line_of_code_that_could_ask_for_collections_does_not_ask(stops: Stops) -> None:
    make_objects = gc.collect  # Python collects while another call runs
    for _ in range(3):
        make_objects()
        stops.end_step("plain")
        stops.resume()
    assert stops.sums().asked_at is None


def found(stops: HostStops, *, busy: float = 100) -> list[Finding]:
    """Return what is found of steps of 1000 us in which a GPU is busy for some of it."""
    return findings_with(builder_of_steps(busy), stops)


def builder_of_steps(busy: float = 100) -> TraceBuilder:
    builder = TraceBuilder()
    for start in builder.steps(5, length=1000):
        builder.op("aten::add", start + 5, 990)
        builder.kernel(start + 10, busy, launch=start + 7)
    return builder


def findings_with(builder: TraceBuilder, stops: HostStops) -> list[Finding]:
    builder.metadata[RUN_KEY] = to_builtins(replace(LOG, stops=stops))
    trace = builder.read()
    return [finding for finding in find(measure(trace), trace) if finding.rule.id in {"PIN608", "PIN609"}]


@pytest.mark.parametrize(
    ("count", "each", "range_us"),
    [(4, "5.00 ms", (100, 300)), (40, "500 µs", (124, 275))],  # that of four: give or take two. Others are in each step
)
def test_collections_are_a_cause_of_their_own(count: int, each: str, range_us: tuple[float, float]) -> None:
    stops = HostStops(100, 0, (Collections(0, 90, 40 * US, US), Collections(2, count, 20_000 * US, 6000 * US)))
    (finding,) = found(stops)
    assert finding.rule.id == "PIN608"
    assert finding.evidence.text == (
        "Python's garbage collector takes 200 µs per step on average, without the profiler: generation 2 "
        f"{count} times in 100 steps, {each} each, at most 6.00 ms"
    )
    assert finding.evidence.cost_ns == pytest.approx(200_400)
    assert finding.saving
    assert finding.saving.saving_ns == pytest.approx(200_400, rel=0.01)
    assert finding.saving.range_ns == pytest.approx([bound * US for bound in range_us], rel=0.1)
    assert "gc.freeze()" in finding.fix


def test_calls_that_were_recorded_are_found_without_a_run() -> None:
    builder = TraceBuilder()
    for start in builder.steps(5, length=1000):
        builder.function("train.py(3): train", start + 1, 998)
        builder.op("aten::add", start + 5, 40)
        builder.kernel(start + 20, 30, launch=start + 10)
        builder.function("<built-in function collect>", start + 50, 790)
        builder.op("aten::add", start + 850, 100)
        builder.kernel(start + 870, 100, launch=start + 860)
    trace = builder.read()
    findings = {finding.rule.id: finding for finding in find(measure(trace), trace)}
    assert "PIN603" not in findings
    assert findings["PIN608"].evidence.text == (
        "`gc.collect()` takes 790 µs per step, as traced, called 1 per step in train()"
    )
    saving = findings["PIN608"].saving
    assert saving is not None
    assert saving.saving_ns == pytest.approx(790 * US, rel=0.05)


def test_collections_that_outlast_a_step_come_before_smaller_savings() -> None:
    builder = TraceBuilder()
    for start in builder.steps(5, length=1000):
        for offset in range(0, 900, 30):
            builder.op("aten::add", start + offset + 5, 20)
            builder.kernel(start + offset + 15, 4, launch=start + offset + 10)
    builder.metadata[RUN_KEY] = to_builtins(
        replace(LOG, stops=HostStops(100, 0, (Collections(2, 4, 400_000 * US, 150_000 * US),)))
    )
    trace = builder.read()
    first, second, *_ = find(measure(trace), trace)
    assert (first.rule.id, second.rule.id) == ("PIN608", "PIN601")
    assert first.saving == Saving(4_000 * US, (2_000 * US, 6_000 * US))
    assert first.share_of(1_000 * US) == 0.8  # of the step and what comes on top of it
    assert worth(first, measure(trace)) == "saves about 4 ms (2.0 to 6.0) per step, in the longer steps"


def test_a_collection_that_came_once_shows_no_rate() -> None:
    assert found(HostStops(100, 0, (Collections(2, 1, 150_000 * US, 150_000 * US),))) == []


@pytest.mark.parametrize(("world", "told"), [(1, False), (8, True)])
def test_all_ranks_wait_for_the_one_that_collects(world: int, told: bool) -> None:
    builder = builder_of_steps()
    builder.metadata["distributedInfo"] = {"rank": 0, "world_size": world}
    (finding,) = findings_with(builder, HostStops(100, 0, (Collections(2, 4, 20_000 * US, 6000 * US),)))
    assert ("8 ranks wait for the one that collects" in finding.evidence.text) is told


def test_where_the_program_asks_for_collections_it_is_told_the_line() -> None:
    stops = HostStops(100, 0, (Collections(2, 100, 20_000 * US, 300 * US),), Place("train.py", 7, "main"))
    (finding,) = found(stops)
    assert "; the program asks for it at train.py:7" in finding.evidence.text
    assert (finding.evidence.file, finding.evidence.line) == ("train.py", 7)
    assert finding.fix.startswith("Call `gc.collect()` less often")


@pytest.mark.parametrize(
    "stops",
    [
        HostStops(),
        HostStops(100, 0, (Collections(0, 200, 2_000 * US, 20 * US),)),  # 2 % of the step
        HostStops(100, 4_000 * US),  # 4 % of the step
    ],
)
def test_few_and_short_stops_are_no_finding(stops: HostStops) -> None:
    assert found(stops) == []


def test_a_cpu_that_others_take_is_not_the_programs_code() -> None:
    (finding,) = found(HostStops(100, 30_000 * US))
    assert finding.rule.id == "PIN609"
    assert finding.evidence.text == (
        "the host's thread did not run for 300 µs per step, 30 % of it, while it was ready to: other threads or "
        "processes had its CPU"
    )
    assert finding.evidence.file is None


@pytest.mark.parametrize(("each_us", "cost_us"), [(300, 50), (5000, 200)])
def test_a_busy_gpu_hides_short_collections_and_no_long_ones(each_us: int, cost_us: int) -> None:
    count = 20_000 // each_us
    stops = HostStops(100, 0, (Collections(2, count, 20_000 * US, each_us * US),))
    (finding,) = found(stops, busy=950)
    assert finding.evidence.cost_ns == pytest.approx(cost_us * US, rel=0.01)


@pytest.mark.slow
def test_a_program_that_closes_all_descriptors_keeps_its_own_file_under_that_number(tmp_path: Path) -> None:
    source = (
        "import os\nfrom pinprof.program.machine import Delay\n"
        "delay = Delay()\nbefore = delay.now_ns()\nos.closerange(3, 4096)\n"
        f"files = [os.open({str(tmp_path / 'own')!r}, os.O_RDWR | os.O_CREAT) for _ in range(950)]\n"
        "assert delay.now_ns() >= before\ndelay.close()\n[os.fstat(file) for file in files]"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)
