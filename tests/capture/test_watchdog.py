"""When something is due in a program in which nothing marks a step, and what counts as its work."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
import torch
from fake_profiler import fake_recording

from pinprof.capture.options import RecordingOptions
from pinprof.capture.steps import watchdog
from pinprof.capture.steps.stepper import Stepper
from pinprof.capture.steps.watchdog import Watchdog, Work, has_tensors, is_programs, patience_s
from pinprof.capture.window import lean
from pinprof.program.ending import StopRequested
from pinprof.program.hooks import faults

S = 1_000_000_000


def after(*, marker: bool = False, modules: bool = False, longest_s: int = 0, optimizer: bool = False) -> float:
    marks = SimpleNamespace(
        has_marker=marker, watches_modules=modules, longest_ns=longest_s * S, optimizers=["Adam"] * optimizer
    )
    return patience_s(cast("Any", marks))


def test_modules_are_watched_then_a_stretch_is_recorded() -> None:
    assert [after(), after(modules=True)] == [3.0, 30.0]


def test_a_program_that_has_an_optimizer_is_waited_for_longer() -> None:
    assert [after(optimizer=True), after(optimizer=True, modules=True)] == [40.0, 120.0]


def test_a_marker_that_stops_coming_leads_to_a_stretch() -> None:
    assert after(marker=True) == 120.0


def body(program: Callable[[], bool]) -> bool:
    return program()


def runs_program() -> bool:
    return is_programs(sys._getframe(), body.__code__)


def of_file(file: str, name: str = "function") -> Callable[[], bool]:
    """Return a function of this name, as if it stood in the file, that calls `runs_program`."""
    names = {"there": runs_program}
    exec(compile(f"def {name}():\n    return there()\n", file, "exec"), names)
    return names[name]


def test_nothing_is_done_within_functions_of_pinprof() -> None:
    own = str(watchdog.__file__)
    assert body(runs_program)
    assert body(of_file(own, "call_module"))
    assert not body(of_file(own))
    assert not runs_program()  # nothing runs a program
    assert not is_programs(None, body.__code__)


def test_imports_and_compilation_are_no_work() -> None:
    assert not body(of_file("<frozen importlib._bootstrap>"))
    assert not body(of_file("/site/torch/_dynamo/convert_frame.py"))
    assert body(of_file("/home/me/train.py"))


def test_the_function_that_runs_a_program_is_not_of_the_program() -> None:
    frames: list[FrameType] = []

    def program() -> bool:
        frames.append(sys._getframe())
        return True

    body(program)
    assert is_programs(frames[0], body.__code__)
    assert not is_programs(frames[0].f_back, body.__code__)


def test_work_counts_from_the_last_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    work = Work(0)
    for quarter in range(1, 9):
        work.add(quarter * S // 4, 0, counts=True)
    assert work.seconds == 2.0
    work.add(9 * S // 4, 0, counts=False)
    assert work.seconds == 2.0
    work.add(10 * S // 4, 2 * S, counts=True)
    assert work.seconds == 0.0


def test_on_a_machine_with_a_gpu_time_without_its_use_hardly_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    work = Work(0)
    work.add(S, 0, counts=True)
    assert work.seconds == pytest.approx(0.1)


def test_memory_given_back_shows_work_and_a_model_being_loaded_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = iter([100, 100, 1100])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    stats = lambda _device: {"allocation": {"all": {"freed": next(freed)}}}  # noqa: E731  read once per look
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", stats)
    work = Work(0)
    work.add(S, 0, counts=True)
    work.add(2 * S, 0, counts=True)
    assert work.seconds == pytest.approx(1.1)
    work.add(3 * S, 0, counts=True)
    assert work.seconds == pytest.approx(2.1)


def test_tensors_show_that_a_program_uses_torch() -> None:
    held = torch.ones(1)
    assert has_tensors()
    del held


class Endless:
    """A program that works for ever, watched four times a second by a clock that only `work` moves on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **marks: Any) -> None:
        self.now_ns, self.said = 0, list[str]()
        for module in (watchdog, lean):
            monkeypatch.setattr(module, "HOST_TIME", SimpleNamespace(perf_counter_ns=lambda: self.now_ns))
        monkeypatch.setattr(watchdog, "is_programs", lambda *_: True)
        monkeypatch.setattr(watchdog, "has_tensors", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
        monkeypatch.setattr(faults, "output", self.said.append)
        monkeypatch.setattr(faults, "sentences", [])
        options = RecordingOptions(warmup=2, max_warmup=2, plain_steps=0, steps=2, line_steps=0)
        self.recording = fake_recording(folder, options)
        known = {"step_marker": "auto", "has_marker": False, "watches_modules": False, "optimizers": []}
        self.marks = SimpleNamespace(**known, longest_ns=0, last_ns=0, watch_modules=self._watch_modules)
        vars(self.marks).update(marks)
        self.dog = Watchdog(
            cast("Any", self.marks),
            Stepper(self.recording, None, keep_going=False),
            may_stop=True,
            body=body.__code__,
            waits_for_others=lambda: False,
        )

    def _watch_modules(self) -> None:
        self.marks.watches_modules = True

    def work(self, seconds: float) -> None:
        for _ in range(round(4 * seconds)):
            self.now_ns += S // 4
            if not self.dog._asleep.is_set() and self.dog._is_due():
                self.dog._act(sys._getframe())


def test_modules_are_watched_then_a_stretch_is_recorded_and_the_program_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Endless(tmp_path, monkeypatch)
    program.work(2.75)
    assert not program.marks.watches_modules
    program.work(0.25)
    assert program.marks.watches_modules
    program.work(26.75)
    assert not program.recording.stretch.is_open
    program.work(0.25)
    assert program.recording.stretch.is_open
    program.work(3.0)
    assert program.recording.stretch.marker == "a stretch of 3.0 s; nothing marked a step"
    with pytest.raises(StopRequested):
        program.work(0.25)
    program.work(4.75)
    assert program.said == []
    with pytest.raises(StopRequested):  # again, as it runs on
        program.work(0.5)
    assert program.said[0].startswith("pinprof has a stretch of its time and waits for the script to end: it is in ")


def test_steps_recorded_before_the_marker_was_lost_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Endless(tmp_path, monkeypatch, has_marker=True)
    with program.recording as recording:
        for _ in range(5):
            recording.step()
        program.work(120)
        with pytest.raises(StopRequested):
            program.work(0.25)
    assert (recording.recorded_steps, recording.stretch.is_written) == (1, False)


def test_a_program_that_makes_no_more_steps_is_stopped_when_it_may_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Endless(tmp_path, monkeypatch)
    program.work(2)
    program.recording.done, program.dog._may_end = True, lambda: program.now_ns >= 4 * S
    program.work(1.75)
    with pytest.raises(StopRequested):
        program.work(0.25)
