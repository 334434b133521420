"""Processes that end, and those that work: what these are asked is Python text, as they know `eval` by name."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from recordings import ROOT

from pinprof.ground import processes
from pinprof.ground.processes import end_process, exit_status, in_processes, without_collections

DIES = "__import__('os')._exit(9)"
IS_OUT_OF_MEMORY = "(_ for _ in ()).throw(MemoryError)"


def evaluated(*texts: str, count: int = 2) -> dict[str, object]:
    return dict(in_processes(eval, texts, count))


def test_each_thing_is_given_back_with_its_result() -> None:
    assert evaluated("1 + 1", "2 + 2", "3 + 3") == {"1 + 1": 2, "2 + 2": 4, "3 + 3": 6}


def test_the_work_is_not_done_here_nor_all_in_one_process() -> None:
    pids = evaluated(*(f"{number} * 0 + __import__('os').getpid()" for number in range(8)))
    assert len(set(pids.values())) == 2
    assert os.getpid() not in pids.values()


@pytest.mark.parametrize("fatal", [DIES, IS_OUT_OF_MEMORY])
@pytest.mark.parametrize("count", [1, 2])
def test_a_process_that_dies_costs_no_other_result(fatal: str, count: int) -> None:
    assert evaluated("1", fatal, "2", "3", count=count) == {"1": 1, "2": 2, "3": 3, fatal: None}


def test_what_died_is_tried_once_more_alone(tmp_path: Path) -> None:
    """It dies unless it has been tried before, as where all together were too much for the memory."""
    mark = tmp_path / "tried"
    second = f"__import__('pathlib').Path({str(mark)!r}).exists() and 'done'"
    first = f"__import__('pathlib').Path({str(mark)!r}).touch() or __import__('os')._exit(9)"
    text = f"{second} or ({first})"
    assert evaluated(text, "1") == {text: "done", "1": 1}


def test_what_is_printed_does_not_get_among_the_results(capfd: pytest.CaptureFixture[str]) -> None:
    assert evaluated("print('noise') or 1") == {"print('noise') or 1": 1}
    assert capfd.readouterr().err == "noise\n"


def test_processes_end_with_the_one_who_asks() -> None:
    before = children()
    answers = in_processes(eval, ["1", "__import__('time').sleep(60)"], 2)
    next(answers)
    assert children() - before
    answers.close()
    assert children() == before


def children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def test_collections_are_left_off_only_meanwhile() -> None:
    with without_collections():
        assert not gc.isenabled()
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


STARTS = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.{handler})
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("handler", "status"), [("SIG_DFL", -signal.SIGTERM), ("SIG_IGN", -signal.SIGKILL)])
def test_a_process_ends_with_what_it_has_started(handler: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_ENDING_S", 600 if handler == "SIG_DFL" else 0.1)
    command = [sys.executable, "-IS", "-c", STARTS.format(handler=handler)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        end_process(process)
        assert process.returncode == status
        assert process.stdout.read() == b""  # closed by all processes


WAITS = """
import signal, sys
from pinprof.ground.processes import exit_status

def told(number, handler, change=signal.signal):
    change(number, handler)
    print("ready\\n", end="", flush=True)

signal.signal = told
sys.exit(exit_status([sys.executable, "-IS", "-c", sys.argv[1]]))
"""
"""Runs a program as `pinprof run --repeat` runs each worker, and says when it is ready for another Ctrl-C."""
INTERRUPTED = """
import signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print("begun\\n", end="", flush=True)
signal.sigtimedwait([signal.SIGINT], 600)
print("interrupted\\n", end="", flush=True)
"""
"""Says when it is ready for Ctrl-C, and when that has come."""
Terminal: TypeAlias = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Run programs by WAITS, each in a process group of its own, as a shell does: its signals reach no test."""
    with ExitStack() as undo:

        def started(program: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [sys.executable, "-c", WAITS, INTERRUPTED + program],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            undo.callback(end, process)
            return process

        yield started


def end(process: "subprocess.Popen[str]") -> None:
    """End what is left of the process group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def press_ctrl_c(process: "subprocess.Popen[str]", *after: str) -> None:
    """Send SIGINT to all of the process group, as a terminal does, once these lines were printed, in any order."""
    assert process.stdout is not None
    assert {process.stdout.readline().strip() for _ in after} == {*after}
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_lets_the_program_end_by_itself(terminal: Terminal) -> None:
    process = terminal("sys.exit(7)")
    press_ctrl_c(process, "begun", "ready")
    assert process.wait(600) == 7


@pytest.mark.slow
def test_a_second_ctrl_c_ends_it(terminal: Terminal) -> None:
    process = terminal("time.sleep(600)")
    press_ctrl_c(process, "begun", "ready")
    press_ctrl_c(process, "interrupted", "ready")
    _, error = process.communicate(timeout=600)  # it ends when the program, too, has closed its output
    assert process.returncode == -signal.SIGINT
    assert error.splitlines()[-1] == "KeyboardInterrupt"


def test_a_program_that_a_signal_ends_has_the_status_of_a_shell() -> None:
    assert exit_status([sys.executable, "-IS", "-c", "import os; os.kill(os.getpid(), 15)"]) == 143


def own_number() -> int:
    return os.getpid()


@pytest.mark.parametrize("spare", [True, False])
def test_a_function_runs_aside_where_a_core_is_free_and_it_is_worth_a_process(
    monkeypatch: pytest.MonkeyPatch, *, spare: bool
) -> None:
    monkeypatch.setattr(processes, "has_spare_core", lambda: spare)
    assert (processes.aside(own_number, is_worth=True)() != os.getpid()) == spare
    assert processes.aside(own_number, is_worth=False)() == os.getpid()


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def refused() -> int:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_what_comes_to_nothing_aside_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "has_spare_core", lambda: True)
    monkeypatch.setattr(processes, "MAX_ASIDE_S", 0.1)
    own = os.getpid()

    def ends(how: signal.Signals) -> bytes:
        if os.getpid() != own:
            os.kill(os.getpid(), how)
        return bytes(1 << 20)

    for how in (signal.SIGKILL, signal.SIGSTOP):
        assert processes.aside(partial(ends, how), is_worth=True)() == bytes(1 << 20)
    with pytest.raises(ZeroDivisionError):
        processes.aside(lambda: 1 / (os.getpid() - os.getpid()), is_worth=True)()
    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", refused)
        assert processes.aside(own_number, is_worth=True)() == own
    assert open_files() == before
    big = processes.aside(lambda: bytes(10_000_000), is_worth=True)
    assert big() == bytes(10_000_000)


def test_no_copy_is_made_for_traces_that_are_measured_side_by_side_nor_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "available_cores", lambda: 2)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    load = [3.0]
    monkeypatch.setattr(os, "getloadavg", lambda: (load[0], 0.0, 0.0))
    assert processes.has_spare_core()
    load[0] = 3.1
    assert not processes.has_spare_core()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getloadavg", refused)  # as where /proc is not mounted
        assert not processes.has_spare_core()
    load[0] = 0.0
    monkeypatch.setattr(processes._Worker, "is_here", True)
    assert not processes.has_spare_core()
