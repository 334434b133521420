"""Lets the program of a worker take turns with another one: each makes a few steps while the other waits.

So both are timed under the same conditions, a fraction of a second apart, even if the conditions change. `pinprof ab`
starts both and says whose turn it is, and on which cores the other has just run. A neighbour on the same hardware, or a
hot core, makes one core slower than the next for a tenth of a second or for seconds: two processes on different cores
would differ by that.
"""

import atexit
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path

from pinprof.ab.worker import ANY, ANY_CORES, CORES, TurnPlan
from pinprof.capture.observe.journal import Journal
from pinprof.capture.options import Progress
from pinprof.processes import children_of, send_signal
from pinprof.program.machine import Delay
from pinprof.trace.run_log import PLAIN, SETTLING

PROCESSOR = 36
"""The field of a thread's `stat` with its core, counted after its name (proc(5))."""
THREADS = Path("/proc/self/task")
AUTOGRAD = "pt_autograd_"
"""How PyTorch names the threads of the backward pass, one for each GPU."""


class Cores:
    """The cores of this thread, and of the thread in which PyTorch runs the backward pass, which often has more work.

    If there are both, they can be held on their cores; otherwise the system may wake up the second one on any core,
    as it sleeps between two steps. They are not held if there are DataLoader workers: a worker that starts meanwhile
    would be held for good.
    """

    def __init__(self) -> None:
        self._autograd: int | None = None
        self._allowed: dict[int, set[int]] = {}
        self._own_cores: list[set[int]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.free)

    def leave(self) -> bytes:
        """Return on which cores the threads are, and let them run on all cores."""
        self.free()
        self._autograd = None if active_children() else _autograd_thread()
        return CORES.pack(*self._current())

    def go_to(self, packed: bytes) -> None:
        """Let the threads go on where those of the other program were; hold them there if both cores are given."""
        if len(packed) != CORES.size:
            return
        main, autograd = CORES.unpack(packed)
        if self._autograd is not None and autograd != ANY:
            self._hold(main, autograd)
        else:
            _move(main)

    def stay(self) -> None:
        """Hold the threads on their cores, each on a core of its own, if there are two."""
        if self._autograd is not None and not self._own_cores:
            self._hold(*self._current())

    def free(self) -> None:
        """Let the threads run on all cores again, and those that they have started meanwhile."""
        if not self._own_cores:
            return
        with suppress(OSError):
            for task in THREADS.iterdir():
                thread = int(task.name)
                with suppress(OSError):  # it has ended meanwhile
                    if os.sched_getaffinity(thread) in self._own_cores:
                        os.sched_setaffinity(thread, self._allowed.get(thread, self._allowed[0]))
        self._own_cores, self._allowed = [], {}

    def _current(self) -> tuple[int, int]:
        """Return the cores of both threads; ANY for a thread that does not exist."""
        main = _core_of("/proc/thread-self/stat")
        return main, ANY if self._autograd is None else _core_of(THREADS / str(self._autograd) / "stat")

    def _hold(self, main: int, autograd: int) -> None:
        assert self._autograd is not None, "there are two threads"
        with suppress(OSError, AttributeError):
            allowed = {thread: os.sched_getaffinity(thread) for thread in (0, self._autograd)}
            both = allowed[0] & allowed[self._autograd]
            if autograd == main:
                autograd = min(both - {main}, key=lambda core: (core < main, core), default=main)
            if {main, autograd} <= both:
                self._allowed, self._own_cores = allowed, [{main}, {autograd}]
                os.sched_setaffinity(0, {main})
                os.sched_setaffinity(self._autograd, {autograd})


def _autograd_thread() -> int | None:
    """Return the thread that has made most of the backward passes of a GPU; None where there is none."""
    threads = []
    with suppress(OSError):
        for task in THREADS.iterdir():
            with suppress(OSError, IndexError, ValueError):
                if (task / "comm").read_text().startswith(AUTOGRAD):
                    threads.append((int((task / "schedstat").read_text().split()[0]), int(task.name)))
    return max(threads)[1] if threads else None


def _core_of(stat: str | Path) -> int:
    """Return the core of a thread; ANY without Linux."""
    with suppress(OSError, IndexError, ValueError):
        return min(int(Path(stat).read_text().rpartition(")")[2].split()[PROCESSOR]), ANY)
    return ANY


def _move(core: int) -> None:
    """Move this thread to a core, if it may run there; the system may move it away at any time."""
    with suppress(OSError, AttributeError):  # macOS has no such call
        allowed = os.sched_getaffinity(0)
        if core in allowed:
            os.sched_setaffinity(0, {core})
            os.sched_setaffinity(0, allowed)


def wait_for_turn(turns: TurnPlan, cores: Cores) -> None:
    """Wait for the turn, with the workers stopped; return at once if `pinprof ab` has ended."""
    packed_cores = ANY_CORES
    with workers_stopped(), suppress(OSError):
        os.write(turns.socket, cores.leave())
        packed_cores = os.read(turns.socket, CORES.size)
    cores.go_to(packed_cores)


def turn_window(turns: TurnPlan, journal: Journal, delays_ns: list[int]) -> Generator[Progress, None, None]:
    """Wait at every step boundary until all turns are over; each turn is a plain window of its own in the journal.

    The GPU is synchronized at the end of a turn, so that no work runs in the other's turn. `delays_ns` gets, for each
    step that counts, how long other programs used the CPU.
    """
    clock, delay, cores = journal.renew_clock(), Delay(), Cores()
    with closing(delay), journal.timing_gpu():
        for turn in range(turns.number):
            clock.synchronize()
            wait_for_turn(turns, cores)
            for step in range(turns.settling):
                yield Progress(SETTLING, step + 1, turns.settling)
            cores.stay()
            for step in range(turns.steps):
                before_ns = delay.now_ns()
                yield Progress(PLAIN, turn * turns.steps + step + 1, turns.number * turns.steps)
                delays_ns.append(delay.now_ns() - before_ns)
        clock.synchronize()
    wait_for_turn(turns, cores)


@contextmanager
def workers_stopped() -> Iterator[None]:
    """Stop the program's own processes while the block is open.

    Otherwise a program would find full queues after its wait, and be quicker than its workers for many steps: if a step
    takes 10 ms and a batch 12 ms, two batches that are ready last for twelve steps of 10 ms. Stopped workers also leave
    the cores to the other program.
    """
    workers = children_of("self")
    send_signal(workers, signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal(workers, signal.SIGCONT)


class QuickExit:
    """Ends this process without Python's own clean-up, which takes 0.7 s with torch.

    It does so after the program's own exit functions, once there is an exit status, and only if the program has left no
    processes.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.status is None or children_of("self"):
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(self.status)
