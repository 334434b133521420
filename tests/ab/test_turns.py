"""Turns: what is told and asked, and how the steps of each turn are noted."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest

from pinprof.ab.turns import Cores, turn_window, wait_for_turn
from pinprof.ab.worker import ANY_CORES, CORES, TurnPlan
from pinprof.capture.observe.journal import Journal
from pinprof.program.machine import Clock, Delay
from pinprof.trace.run_log import PLAIN, SETTLING


@contextmanager
def sockets() -> Iterator[tuple[socket.socket, int]]:
    """Yield the end of who gives turns, and the descriptor of the other one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs.fileno()


def test_a_program_waits_before_each_turn_and_in_the_end() -> None:
    journal, delays = Journal(Clock), list[int]()
    journal.begin(with_step=True)
    with sockets() as (ours, theirs):
        ours.sendall(3 * ANY_CORES)
        seen = []
        for progress in turn_window(TurnPlan(theirs, 1, 2, 2), journal, delays):
            seen.append(progress.window)
            journal.end_step(progress.window)
            journal.resume()
        assert len(ours.recv(99)) == 3 * CORES.size
    assert seen == [SETTLING, PLAIN, PLAIN] * 2
    assert journal.log().windows == ((SETTLING, 1), (PLAIN, 2), (SETTLING, 1), (PLAIN, 2))
    assert len(delays) == 4


def test_where_nobody_gives_turns_it_goes_on() -> None:
    with sockets() as (ours, theirs):
        ours.close()
        wait_for_turn(TurnPlan(theirs, 1, 1, 1), Cores())
    wait_for_turn(TurnPlan(theirs, 1, 1, 1), Cores())


def test_its_workers_stand_still_while_it_waits() -> None:
    with subprocess.Popen(["sleep", "60"]) as worker, subprocess.Popen(["true"]), sockets() as (ours, theirs):
        turns = TurnPlan(theirs, 1, 1, 1)
        waiting = Thread(target=wait_for_turn, args=(turns, Cores()))
        waiting.start()
        ours.recv(CORES.size)
        assert is_soon(worker.pid, "T")
        ours.sendall(ANY_CORES)
        waiting.join()
        assert is_soon(worker.pid, "S")
        worker.kill()


def is_soon(process: int, state: str) -> bool:
    """Return whether a process comes into this state within seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == state:
            return True
        time.sleep(0.01)
    return False


LEAVES = """
import atexit, subprocess, sys
from pinprof.ab.turns import QuickExit

class Late:
    def __del__(self):
        print("tidied up")

leaving, kept = QuickExit(), Late()
atexit.register(print, "what the program wants done")
{then}
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "also"),
    [
        ("leaving.status = 3", ""),
        pytest.param("", "tidied up\n", marks=pytest.mark.slow),
        pytest.param(
            "leaving.status = 3; child = subprocess.Popen(['sleep', '1'])", "tidied up\n", marks=pytest.mark.slow
        ),
    ],
)
def test_a_process_that_has_its_status_leaves_without_tidying_up(then: str, also: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", LEAVES.format(then=then)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (ran.returncode, ran.stdout) == (3, f"what the program wants done\n{also}"), ran.stderr


def test_the_delay_only_grows() -> None:
    delay = Delay()
    seen = [delay.now_ns() for _ in range(5)]
    delay.close()
    assert all(before <= after for before, after in pairwise(seen))
