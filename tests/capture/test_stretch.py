"""A stretch of time as the recording, with an injected profiler."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_profiler import MS, FakeClock, FakeProfiler, fake_recording

from pinprof.capture.options import RecordingOptions
from pinprof.capture.steps.stepper import Stepper
from pinprof.capture.window import lean
from pinprof.capture.window.lean import Stretch
from pinprof.capture.window.recording import Recording
from pinprof.program.ending import StopRequested


def stretch_of(tmp_path: Path, profiler: FakeProfiler | None = None) -> Stretch:
    make = cast("Any", lambda _: profiler or FakeProfiler())
    return Stretch(tmp_path / "out.json", make, lambda marker: {"marker": marker})


def recording_of(tmp_path: Path, clock: FakeClock | None = None, **windows: int) -> Recording:
    plainly: dict[str, Any] = {"warmup": 2, "max_warmup": 2, "plain_steps": 0, "steps": 2, "line_steps": 0, **windows}
    return fake_recording(tmp_path, RecordingOptions(**plainly, plain_seconds=0.0, plain_precision=1.0), clock)


def make(recording: Recording, steps: int) -> Recording:
    """Let the program make this number of steps."""
    for _ in range(steps):
        recording.step()
    return recording


def started(tmp_path: Path, steps: int) -> Recording:
    recording = recording_of(tmp_path)
    recording.start()
    return make(recording, steps)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock by which a stretch is as long as a test says."""
    host = FakeClock()
    monkeypatch.setattr(lean, "HOST_TIME", SimpleNamespace(perf_counter_ns=host.now_ns))
    return host


def record(stretch: Stretch, host: FakeClock) -> None:
    stretch.begin()
    host.time_ns += 2000 * MS


def test_a_stretch_is_written_with_its_length_as_the_marker(tmp_path: Path, host: FakeClock) -> None:
    profiler = FakeProfiler()
    stretch = stretch_of(tmp_path, profiler)
    record(stretch, host)
    assert stretch.is_open
    assert not stretch.is_written
    stretch.end()
    assert not stretch.is_open
    assert stretch.is_written
    assert profiler.calls == ["start", "metadata", "stop", "export"]  # torch takes metadata only while it records
    assert profiler.metadata["pinprof"] == {"marker": stretch.marker}
    assert stretch.marker == "a stretch of 2.0 s; nothing marked a step"


def test_without_a_beginning_there_is_nothing_to_write(tmp_path: Path) -> None:
    stretch = stretch_of(tmp_path)
    stretch.end()
    assert not stretch.is_written
    assert not (tmp_path / "out.json").exists()


def test_a_program_that_ends_within_a_stretch_keeps_it(tmp_path: Path, host: FakeClock) -> None:
    recording = started(tmp_path, 0)
    record(recording.stretch, host)
    recording.end()
    assert recording.stretch.is_written
    assert recording.marker == recording.stretch.marker


def test_abandoned_windows_keep_their_complete_steps(tmp_path: Path) -> None:
    recording = started(tmp_path, 5)
    recording.abandon()
    assert (recording.recorded_steps, recording.done) == (1, False)
    assert make(recording, 1).recorded_steps == 1


def test_windows_begin_anew_where_steps_are_marked_otherwise(tmp_path: Path) -> None:
    recording = started(tmp_path, 3)  # two of warm-up, one for the profiler
    recording.restart()
    assert len(recording.journal) == 0  # the steps so far were others
    assert not make(recording, 5).done
    make(recording, 1)
    assert (recording.done, recording.recorded_steps) == (True, 2)
    assert len(recording.journal) == 5  # the first of the new steps began before the change


def test_windows_end_where_steps_are_marked_otherwise_after_a_recorded_one(tmp_path: Path) -> None:
    recording = started(tmp_path, 5)
    recording.restart()
    assert (recording.done, recording.recorded_steps) == (True, 1)


def test_a_recording_is_discarded_for_a_better_one(tmp_path: Path) -> None:
    recording = started(tmp_path, 6)
    assert recording.done
    recording.restart(discard=True)
    assert (recording.done, recording.recorded_steps) == (False, 0)
    make(recording, 6)
    assert (recording.done, recording.recorded_steps) == (True, 2)


def test_steps_are_timed_again_where_the_recorded_ones_are_others(tmp_path: Path) -> None:
    clock = FakeClock()
    recording = recording_of(tmp_path, clock, plain_steps=9)
    recording.start()
    for number in range(200):
        clock.time_ns += (80 if number < 11 else 10) * MS
        recording.step()
    assert recording.done
    assert recording.plain is not None
    assert recording.plain.mean_ms == 10


def test_two_slow_steps_without_the_profiler_do_not_cost_the_recording(tmp_path: Path) -> None:
    clock = FakeClock()
    with recording_of(tmp_path, clock, warmup=1, max_warmup=1, plain_steps=2) as recording:
        for ms in (10, 80, 80, 10, 10, 10, 10, 10):
            clock.time_ns += ms * MS
            recording.step()
    assert recording.recorded_steps == 2


@pytest.mark.parametrize("waits_s", [20.0, 0.0])
def test_a_script_goes_on_while_better_steps_may_follow(tmp_path: Path, waits_s: float) -> None:
    stepper = Stepper(recording_of(tmp_path), None, keep_going=False, awaits_better_s=lambda: waits_s)
    stepper.recording.start()
    for _ in range(5):
        stepper.end_step("batch")
    with nullcontext() if waits_s else pytest.raises(StopRequested):
        stepper.end_step("batch")
    assert stepper.recording.done
    assert stepper.may_end() == (not waits_s)
    assert stepper.recording.marker == ("batch; no optimizer has stepped" if waits_s else "batch")
