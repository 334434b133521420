"""The windows of a recording, with an injected clock and profiler, and once with torch's own."""

import gzip
import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import torch
from fake_profiler import MS, TWO_OF_EACH, FakeClock, FakeProfiler

from pinprof.capture.options import RecordingOptions
from pinprof.capture.window.recording import Recording, profile
from pinprof.capture.window.trace_file import writable_target
from pinprof.ground.errors import CaptureError
from pinprof.program.loaders import BatchSource
from pinprof.trace.metadata.info import HostMemory
from pinprof.trace.metadata.run_log import RUN_KEY


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def profiler() -> FakeProfiler:
    return FakeProfiler()


@pytest.fixture
def record(tmp_path: Path, clock: FakeClock, profiler: FakeProfiler) -> Callable[[RecordingOptions], Recording]:
    def build(options: RecordingOptions) -> Recording:
        make = cast("Any", lambda _steps: profiler)
        return Recording(tmp_path / "out.json", options, make, make_clock=lambda: clock)

    return build


Record = Callable[[RecordingOptions], Recording]


def run(recording: Recording, clock: FakeClock, steps_ms: list[float]) -> Recording:
    with recording:
        for step_ms in steps_ms:
            clock.time_ns += round(step_ms * MS)
            recording.step()
    return recording


@pytest.mark.parametrize("in_closure", [False, True])
def test_gradients_that_a_closure_hands_to_its_optimizer_are_not_called_unread(
    record: Record, clock: FakeClock, profiler: FakeProfiler, in_closure: bool
) -> None:
    recording = record(TWO_OF_EACH)

    def runs() -> float:
        return float(run(recording, clock, [1.0] * 8).recorded_steps)

    assert (torch.optim.SGD([torch.zeros(1)]).step(runs) if in_closure else runs()) == 2
    assert (profiler.metadata["pinprof"]["unread"] is None) == in_closure


def test_windows_follow_each_other_and_the_file_is_written(
    record: Record, clock: FakeClock, profiler: FakeProfiler
) -> None:
    recording = run(record(TWO_OF_EACH), clock, [1.0] * 8)
    assert recording.done
    assert recording.recorded_steps == 2
    stored = json.loads(recording.path.read_text())
    assert stored.keys() == {RUN_KEY, "traceEvents"}
    assert stored[RUN_KEY]["windows"] == [["warm-up", 2], ["plain", 2], ["profiler warm-up", 2], ["recorded", 2]]
    # three boundaries inside the profiler's four steps, then its end
    assert profiler.calls == ["start", "step", "step", "step", "metadata", "metadata", "stop", "export"]
    assert [path.name for path in recording.path.parent.iterdir()] == ["out.json"]


def test_plain_window_synchronizes_at_its_ends_only_and_leaves_the_warm_up_out(
    record: Record, clock: FakeClock
) -> None:
    windows = RecordingOptions(warmup=2, plain_steps=11, plain_seconds=0.0, plain_precision=inf, steps=1)
    recording = run(record(windows), clock, [100.0, 100.0, *range(1, 12), 50.0, 50.0, 50.0])
    assert clock.synchronized_at_ns == [200 * MS, 266 * MS]
    plain = recording.plain
    assert plain is not None
    assert (plain.steps, plain.mean_ms, plain.p10_ms, plain.p90_ms) == (11, 6.0, 2.0, 10.0)


def test_plain_window_of_slow_steps_ends_after_its_most_seconds(record: Record, clock: FakeClock) -> None:
    windows = RecordingOptions(warmup=0, plain_steps=20, plain_seconds=1.0, plain_max_seconds=10.0, steps=1)
    recording = run(record(windows), clock, [4000.0] * 6)
    assert recording.plain is not None
    assert recording.plain.steps == 3
    slower = run(record(windows), clock, [30_000.0] * 6)
    assert slower.plain is not None
    assert slower.plain.steps == 3


def test_metadata_holds_the_memory_behind_the_last_step_and_the_loaders_before_the_first(
    record: Record, clock: FakeClock, profiler: FakeProfiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def memory() -> HostMemory:
        asked.append(("memory", profiler.calls.count("step")))
        return HostMemory(4096, 2048, 8192, 1 << 30, 1 << 29, None)

    def pin() -> bool:
        asked.append(("loaders", profiler.calls.count("start")))
        return True

    monkeypatch.setattr("pinprof.capture.window.trace_file.host_memory", memory)
    monkeypatch.setattr("pinprof.capture.window.lean.loaders_pin", pin)
    run(record(TWO_OF_EACH), clock, [2.0] * 8)
    assert asked == [("loaders", 0), ("memory", 3)]
    described = profiler.metadata["pinprof"]
    assert described["loaders_pin"] is True
    assert described["host_memory"] == {
        "pinned_bytes": 4096,
        "used_bytes": 2048,
        "peak_bytes": 8192,
        "total_bytes": 1 << 30,
        "available_bytes": 1 << 29,
        "limit_bytes": None,
    }


@pytest.mark.parametrize(("ends", "is_noted"), [(1, False), (3, False), (7, False), (150, True)])
def test_a_profiler_of_the_program_that_is_on_in_all_timed_steps_is_noted(
    record: Record, clock: FakeClock, profiler: FakeProfiler, ends: int, is_noted: bool
) -> None:
    own = torch.autograd.profiler.profile().__enter__()  # type: ignore[no-untyped-call]
    with record(TWO_OF_EACH) as recording:
        for step in range(160):
            if step == ends:
                own.__exit__(None, None, None)
            clock.time_ns += MS
            recording.step()
    assert profiler.metadata["pinprof"]["profiled"] is is_noted


def test_progress_names_the_window_of_every_step(tmp_path: Path, clock: FakeClock, profiler: FakeProfiler) -> None:
    seen: list[tuple[str, int, int]] = []
    make = cast("Any", lambda _steps: profiler)
    recording = Recording(
        tmp_path / "out.json", TWO_OF_EACH, make, make_clock=lambda: clock, on_progress=lambda *now: seen.append(now)
    )
    run(recording, clock, [1.0] * 8)
    names = ["warm-up", "plain", "profiler warm-up", "recorded"]
    assert seen == [(name, step, 2) for name in names for step in (1, 2)]


def test_early_end_keeps_the_complete_steps(record: Record, clock: FakeClock, profiler: FakeProfiler) -> None:
    recording = run(record(TWO_OF_EACH), clock, [1.0] * 7)
    assert not recording.done
    assert recording.recorded_steps == 1
    assert recording.path.exists()
    assert profiler.calls[-3:] == ["metadata", "stop", "export"]


@pytest.mark.parametrize("steps", [0, 1, 3, 5, 6])
def test_too_few_steps_is_an_error_with_the_remedy(
    record: Record, clock: FakeClock, profiler: FakeProfiler, steps: int
) -> None:
    recording = record(TWO_OF_EACH)
    with pytest.raises(CaptureError, match=rf"ended after {steps} steps?, .*8 are needed.*Run it longer"):
        run(recording, clock, [1.0] * steps)
    assert not recording.path.exists()
    assert profiler.calls.count("start") == profiler.calls.count("stop")


@pytest.mark.parametrize(
    ("warmup", "seconds", "steps_ms", "reason"),
    [
        (2, 1.0, [1.0] * 50, "the plain window was still open"),
        (30, 0.0, [1.0, 9.0] * 25, "the warm-up window was still open"),
    ],
)
def test_quick_steps_that_were_not_enough_in_time_say_what_was_waited_for(
    record: Record, clock: FakeClock, warmup: int, seconds: float, steps_ms: list[float], reason: str
) -> None:
    options = RecordingOptions(warmup=warmup, plain_steps=2, plain_seconds=seconds, plain_precision=inf, steps=2)
    with pytest.raises(CaptureError, match=rf"ended after 50 steps, .*{reason}"):
        run(record(options), clock, steps_ms)


@pytest.mark.parametrize("steps", [4, 5, 36])
def test_a_program_of_few_steps_is_told_options_that_record_it(record: Record, clock: FakeClock, steps: int) -> None:
    with pytest.raises(CaptureError) as caught:
        run(record(RecordingOptions()), clock, [1.0] * steps)
    advice = str(caught.value).partition("Run it longer, or ask for fewer steps: ")[2]
    chosen = {name: int(value) for name, value in (option.split("=") for option in advice.split(", "))}
    assert run(
        record(msgspec.structs.replace(RecordingOptions(), **chosen)), clock, [1.0] * steps
    ).recorded_steps == min(steps - 3, 3)


def test_a_program_of_three_steps_can_only_run_longer(record: Record, clock: FakeClock) -> None:
    with pytest.raises(CaptureError, match=r"5 recorded\. Run it longer$"):
        run(record(RecordingOptions()), clock, [1.0] * 3)


def fail_after(recording: Recording, steps: int) -> None:
    with recording:
        for _ in range(steps):
            recording.step()
        raise ZeroDivisionError


@pytest.mark.parametrize(("steps", "stop_fails", "kept"), [(7, False, 1), (1, False, 0), (7, True, 0)])
def test_the_programs_own_exception_passes_whatever_was_recorded(
    record: Record, profiler: FakeProfiler, steps: int, stop_fails: bool, kept: int
) -> None:
    profiler.stop_fails = stop_fails
    recording = record(TWO_OF_EACH)
    with pytest.raises(ZeroDivisionError):
        fail_after(recording, steps)
    assert (recording.recorded_steps, recording.path.exists()) == (kept, kept > 0)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("out.json", {}, "exists already"),
        ("out.txt", {}, r"must end in \.json or \.json\.gz"),
        ("missing/out.json", {}, "there is no folder"),
        ("new.json", {"steps": 0}, "at least one step"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_any_step(
    tmp_path: Path, name: str, changes: dict[str, Any], reason: str
) -> None:
    (tmp_path / "out.json").write_text("precious")
    with pytest.raises(CaptureError, match=reason):
        profile(tmp_path / name, **changes)
    assert writable_target(tmp_path / "out.json", RecordingOptions(force=True)) == tmp_path / "out.json"


def train() -> None:
    weight = torch.ones(4, 4, requires_grad=True)
    (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("name", "with_stack"),
    [
        ("out.json", False),
        pytest.param("out.json.gz", True, marks=pytest.mark.slow),
    ],  # torch looks at all objects there
)
def test_trace_of_torch_has_named_steps_and_our_metadata(tmp_path: Path, name: str, *, with_stack: bool) -> None:
    path = tmp_path / name
    with profile(
        path, steps=2, warmup=1, plain_steps=3, plain_seconds=0.0, plain_precision=1, with_stack=with_stack
    ) as recording:
        while not recording.done:
            train()
            recording.step()
    text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    trace = json.loads(text)
    steps = [event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")]
    assert steps == ["ProfilerStep#2", "ProfilerStep#3"]
    assert trace["pinprof"]["plain"]["steps"] == 3
    assert any(event.get("cat") == "python_function" for event in trace["traceEvents"]) is with_stack
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_steps_are_timed_by_events(tmp_path: Path) -> None:
    weight = torch.ones(2048, 2048, device="cuda")
    with profile(tmp_path / "out.json", steps=2, plain_seconds=0.1) as recording:
        while not recording.done:
            weight @ weight
            recording.step()
    assert recording.plain is not None
    trace = json.loads((tmp_path / "out.json").read_text())
    assert trace["pinprof"]["gpu"] == torch.cuda.get_device_name()
    kernels_ms = [event["dur"] / 1e3 for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    assert recording.plain.p90_ms > 0.8 * min(kernels_ms)  # the GPU's time, not that of a launch


def test_the_warm_up_goes_on_until_the_steps_are_steady(record: Record, clock: FakeClock) -> None:
    recording = record(RecordingOptions(warmup=2, plain_steps=0, steps=1))
    with recording:
        for step_ms in [1000, 500, 100, 50, 20, *[10] * 15]:
            clock.time_ns += step_ms * MS
            recording.step()
            if recording.recorded_steps:
                break
    assert recording.steps_seen == 16  # thirteen until five are like the five before, two to start, one recorded


def test_the_warm_up_goes_on_while_workers_fill_their_queues(
    record: Record, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that find their batches ready are steady, and shorter than those that come to wait for the workers."""
    monkeypatch.setattr(BatchSource, "is_filling", property(lambda _: clock.time_ns < 16 * MS))
    recording = run(record(msgspec.structs.replace(TWO_OF_EACH, max_warmup=50)), clock, [1.0] * 30)
    assert dict(recording.journal.log().windows)["warm-up"] == 16
