"""When something is due in a program in which nothing marks a step, and what counts as its work."""

import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
import torch

from pinprof.capture.steps import watchdog
from pinprof.capture.steps.watchdog import Work, has_tensors, is_programs, patience_s

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


def test_slow_signs_are_waited_for() -> None:
    assert after(modules=True, longest_s=20) == 100.0


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


def test_a_thread_that_was_not_let_run_has_seen_one_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    work = Work(0)
    work.add(60 * S, 0, counts=True)
    assert work.seconds == 1.0


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
