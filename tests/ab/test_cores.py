"""The cores of the threads that make a step, and the way to other ones."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest

from pinprof.ab.turns import Cores
from pinprof.ab.worker import ANY, ANY_CORES, CORES

ALLOWED = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two cores")


def as_told(main: int, autograd: int = ANY) -> bytes:
    return CORES.pack(main, autograd)


@contextmanager
def sleeping_thread(name: str = "pt_autograd_0") -> Iterator[int]:
    """Run a thread of this name, and yield its number."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread.native_id
    Path(f"/proc/self/task/{thread.native_id}/comm").write_text(name)
    try:
        yield thread.native_id
    finally:
        end.set()
        thread.join()


def test_a_thread_goes_to_each_core_and_may_still_run_on_all() -> None:
    cores = Cores()
    for core in ALLOWED:
        arrivals = 0
        for _ in range(100):  # a busy machine may move it on at once
            cores.go_to(as_told(core))
            arrivals += CORES.unpack(cores.leave()) == (core, ANY)
        assert arrivals > 50
    assert os.sched_getaffinity(0) == set(ALLOWED)


@two_cores
def test_with_a_thread_for_the_backward_pass_both_are_held_where_they_are_told_until_they_leave() -> None:
    cores = Cores()
    with sleeping_thread() as autograd:
        cores.leave()
        for main, other in (ALLOWED[:2], ALLOWED[1::-1]):
            cores.go_to(as_told(main, other))
            assert (os.sched_getaffinity(0), os.sched_getaffinity(autograd)) == ({main}, {other})
            cores.stay()
            assert (os.sched_getaffinity(0), os.sched_getaffinity(autograd)) == ({main}, {other})
            assert CORES.unpack(cores.leave())[0] == main
            assert os.sched_getaffinity(0) == os.sched_getaffinity(autograd) == set(ALLOWED)


@two_cores
def test_the_first_of_two_is_held_where_it_is_on_two_cores() -> None:
    cores = Cores()
    with sleeping_thread() as autograd:
        for _ in range(20):
            cores.leave()
            cores.go_to(ANY_CORES)
            assert os.sched_getaffinity(0) == set(ALLOWED)
            cores.stay()
            held = os.sched_getaffinity(0), os.sched_getaffinity(autograd)
            assert [len(cores_of_thread) for cores_of_thread in held] == [1, 1]
            assert held[0] != held[1]
        cores.free()
        assert os.sched_getaffinity(0) == os.sched_getaffinity(autograd) == set(ALLOWED)


@two_cores
def test_of_several_such_threads_the_one_that_works_is_held() -> None:
    cores, begin, end = Cores(), threading.Event(), threading.Event()

    def work() -> None:
        sum(range(1_000_000))
        begin.set()
        end.wait()

    worker = threading.Thread(target=work)
    with sleeping_thread() as idle:
        worker.start()
        assert worker.native_id
        Path(f"/proc/self/task/{worker.native_id}/comm").write_text("pt_autograd_1")
        begin.wait()
        cores.leave()
        cores.stay()
        assert len(os.sched_getaffinity(worker.native_id)) == 1
        assert os.sched_getaffinity(idle) == set(ALLOWED)
        cores.free()
        end.set()
        worker.join()


@two_cores
@pytest.mark.filterwarnings("ignore")  # of a fork while threads run, from Python 3.12 on
def test_what_the_program_starts_meanwhile_is_not_held_for_long() -> None:
    cores = Cores()
    with sleeping_thread():
        cores.leave()
        cores.stay()
        with sleeping_thread("of the program") as started:
            assert len(os.sched_getaffinity(started)) == 1
            child = os.fork()
            if child == 0:
                os._exit(len(os.sched_getaffinity(0)))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(ALLOWED)
            cores.leave()
            assert os.sched_getaffinity(started) == os.sched_getaffinity(0) == set(ALLOWED)


def test_beside_workers_nothing_is_held() -> None:
    cores, worker = Cores(), get_context("spawn").Process(target=time.sleep, args=(60,))
    worker.start()
    with sleeping_thread() as autograd:
        assert CORES.unpack(cores.leave())[1] == ANY
        cores.go_to(as_told(ALLOWED[0], ALLOWED[-1]))
        cores.stay()
        assert os.sched_getaffinity(0) == os.sched_getaffinity(autograd) == set(ALLOWED)
    worker.kill()
    worker.join()


def test_it_stays_where_another_is_not_named_or_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("it moves"))
    cores, none = Cores(), max(ALLOWED) + 1
    with sleeping_thread():
        for message in (ANY_CORES, b"", b"g", as_told(none), as_told(none, ALLOWED[0])):
            cores.go_to(message)
        cores.leave()
        cores.go_to(as_told(ALLOWED[0], none))


def test_a_system_that_refuses_or_has_no_such_call_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    cores = Cores()
    with sleeping_thread():
        message = cores.leave()
        monkeypatch.setattr(os, "sched_setaffinity", refuse)
        cores.go_to(message)
        cores.stay()
        cores.leave()
        monkeypatch.delattr(os, "sched_getaffinity")
        cores.go_to(as_told(0, 1))
        cores.stay()
        cores.leave()
