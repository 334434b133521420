"""A stretch of time as the recording, with an injected profiler."""

import time
from pathlib import Path
from typing import Any, cast

import pytest
from fake_profiler import FakeProfiler

from pinprof.capture.options import RecordingOptions
from pinprof.capture.window.lean import SHORTEST_KEPT_S, Stretch
from pinprof.capture.window.recording import Recording
from pinprof.errors import CaptureError


def stretch_of(tmp_path: Path, profiler: FakeProfiler | None = None) -> Stretch:
    make = cast("Any", lambda _: profiler or FakeProfiler())
    return Stretch(tmp_path / "out.json", make, lambda marker: {"marker": marker})


def recording_of(tmp_path: Path) -> Recording:
    options = RecordingOptions(warmup=2, max_warmup=2, plain_steps=0, steps=2, line_steps=0)
    return Recording(tmp_path / "out.json", options, cast("Any", lambda _: FakeProfiler()))


def record(stretch: Stretch) -> None:
    stretch.begin()
    time.sleep(2 * SHORTEST_KEPT_S)


def test_a_stretch_is_written_with_its_length_as_the_marker(tmp_path: Path) -> None:
    profiler = FakeProfiler()
    stretch = stretch_of(tmp_path, profiler)
    record(stretch)
    assert stretch.is_open
    assert not stretch.is_written
    stretch.end()
    assert not stretch.is_open
    assert stretch.is_written
    assert profiler.calls == ["start", "metadata", "stop", "export"]  # torch takes metadata only while it records
    assert profiler.metadata["pinprof"] == {"marker": stretch.marker}
    assert stretch.marker.endswith(" s; nothing marked a step")


def test_without_a_beginning_there_is_nothing_to_write(tmp_path: Path) -> None:
    stretch = stretch_of(tmp_path)
    stretch.end()
    assert not stretch.is_written
    assert not (tmp_path / "out.json").exists()


def test_a_moment_is_not_kept(tmp_path: Path) -> None:
    stretch = stretch_of(tmp_path)
    stretch.begin()
    stretch.end()
    assert not stretch.is_written


def test_a_profiler_that_does_not_start_is_an_error_of_capture(tmp_path: Path) -> None:
    stretch = stretch_of(tmp_path, FakeProfiler(start_fails=True))
    with pytest.raises(CaptureError, match="already enabled"):
        stretch.begin()
    assert not stretch.is_open


def test_a_program_that_ends_within_a_stretch_keeps_it(tmp_path: Path) -> None:
    recording = recording_of(tmp_path)
    recording.start()
    record(recording.stretch)
    recording.end()
    assert recording.stretch.is_written
    assert recording.marker == recording.stretch.marker


def test_abandoned_windows_keep_their_complete_steps(tmp_path: Path) -> None:
    recording = recording_of(tmp_path)
    recording.start()
    for _ in range(5):
        recording.step()
    recording.abandon()
    assert recording.recorded_steps == 1
    assert not recording.done
    recording.step()
    assert recording.recorded_steps == 1


def test_a_step_within_the_last_stretch_does_not_end_it(tmp_path: Path) -> None:
    recording = recording_of(tmp_path)
    recording.start()
    recording.step()
    recording.abandon()
    recording.stretch.begin()
    recording.step()
    assert recording.stretch.is_open
    recording.end()


def test_windows_begin_anew_where_steps_are_marked_otherwise(tmp_path: Path) -> None:
    recording = recording_of(tmp_path)
    recording.start()
    for _ in range(3):  # two of warm-up, one for the profiler
        recording.step()
    recording.restart()
    assert len(recording.journal) == 0  # the steps so far were others
    for _ in range(5):
        recording.step()
    assert not recording.done
    recording.step()
    assert recording.done
    assert recording.recorded_steps == 2
    assert len(recording.journal) == 5  # the first of the new steps began before the change


def test_windows_do_not_begin_anew_after_a_recorded_step(tmp_path: Path) -> None:
    recording = recording_of(tmp_path)
    recording.start()
    for _ in range(5):
        recording.step()
    recording.restart()
    recording.step()
    assert recording.done
