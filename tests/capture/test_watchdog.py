"""What is due in a program in which nothing marks a step, and when."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest
import torch

from pinprof.capture.steps.watchdog import Activity, Due, Situation, due, is_in_program, is_preparing, tensors

QUIET = Situation(0.0, 0.0, has_marker=False, watches_modules=False)
WATCHED = replace(QUIET, watches_modules=True)
S = 1_000_000_000


def fail() -> bool:
    raise AssertionError


def at(work_s: float, now: Situation = QUIET, *, optimizer: bool = False) -> Due | None:
    return due(30.0, replace(now, work_s=work_s), lambda: optimizer)


def test_modules_are_watched_then_a_stretch_is_recorded() -> None:
    assert [at(2.9), at(3.0)] == [None, "modules"]
    assert [at(29.9, WATCHED), at(30.0, WATCHED)] == [None, "stretch"]


def test_a_program_that_has_an_optimizer_is_waited_for_longer() -> None:
    assert [at(39.9, optimizer=True), at(40.0, optimizer=True)] == [None, "modules"]
    assert [at(119.9, WATCHED, optimizer=True), at(120.0, WATCHED, optimizer=True)] == [None, "stretch"]


def test_slow_signs_are_waited_for() -> None:
    slow = replace(WATCHED, longest_s=20.0)
    assert [at(99.9, slow), at(100.0, slow)] == [None, "stretch"]


def test_a_marker_that_stops_coming_leads_to_a_stretch() -> None:
    marked = replace(QUIET, has_marker=True, longest_s=0.1)
    assert [at(119.9, marked), at(120.0, marked)] == [None, "stretch"]


def test_nothing_is_due_where_nobody_wants_a_stretch() -> None:
    assert due(0.0, replace(QUIET, work_s=1e6), fail) is None


def test_optimizers_are_counted_only_when_it_matters() -> None:
    assert due(30.0, replace(QUIET, work_s=2.9), fail) is None
    assert due(30.0, replace(WATCHED, work_s=29.0), fail) is None
    assert due(30.0, replace(QUIET, work_s=500.0, has_marker=True), fail) == "stretch"


def test_less_patience_makes_all_of_it_sooner() -> None:
    assert due(3.0, replace(QUIET, work_s=1.0), lambda: False) == "modules"
    assert due(3.0, replace(WATCHED, work_s=3.0), lambda: False) == "stretch"


def body(program: Callable[[], bool]) -> bool:
    return program()


def in_program() -> bool:
    return is_in_program(sys._getframe(), body.__code__)


def call_module() -> bool:
    return in_program()


def frame_of_own(name: str) -> Callable[[], bool]:
    from pinprof.capture.steps import watchdog  # noqa: PLC0415  for the name of its file

    source = f"def {name}():\n    return there()\n"
    names = {"there": in_program}
    exec(compile(source, str(watchdog.__file__), "exec"), names)
    return names[name]


def test_a_program_is_interrupted_only_outside_of_pinprofs_own_functions() -> None:
    assert body(in_program)
    assert body(frame_of_own("call_module"))
    assert not body(frame_of_own("change"))
    assert not in_program()  # nothing runs a program
    assert not is_in_program(None, body.__code__)


def test_imports_and_compilation_are_no_work() -> None:
    def frame(name: str) -> FrameType:
        names = {"_getframe": sys._getframe}
        exec(compile("def here():\n    return _getframe()\n", name, "exec"), names)
        here = names["here"]()
        assert isinstance(here, FrameType)
        return here

    assert is_preparing(frame("<frozen importlib._bootstrap>"))
    assert is_preparing(frame("/site/torch/_dynamo/convert_frame.py"))
    assert not is_preparing(frame("/home/me/train.py"))
    assert not is_preparing(None)


def test_work_counts_from_the_last_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    work = Activity(0)
    for quarter in range(1, 9):
        work.look(quarter * S // 4, None, 0)
    assert (work.seconds, work.total_s) == (2.0, 2.0)
    work.look(9 * S // 4, None, 2 * S)
    assert (work.seconds, work.total_s) == (0.0, 2.25)


def test_a_thread_that_was_not_let_run_has_seen_one_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    work = Activity(0)
    work.look(60 * S, None, 0)
    assert work.seconds == 1.0


def test_on_a_machine_with_a_gpu_time_without_its_use_hardly_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    work = Activity(0)
    work.look(S, None, 0)
    assert work.seconds == pytest.approx(0.1)


def test_memory_given_back_shows_work_and_a_model_being_loaded_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = iter([100, 100, 1100])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    stats = lambda _device: {"allocation": {"all": {"freed": next(freed)}}}  # noqa: E731  read once per look
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", stats)
    work = Activity(0)
    work.look(S, None, 0)
    work.look(2 * S, None, 0)
    assert work.seconds == pytest.approx(1.1)
    work.look(3 * S, None, 0)
    assert work.seconds == pytest.approx(2.1)


def test_tensors_show_that_a_program_uses_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    work = Activity(0)
    held = torch.ones(1)
    assert id(held) in tensors()
    assert work.is_with_tensors()
