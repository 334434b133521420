"""Tells on which cores the threads run that make a program's steps, and lets them go to other ones.

A neighbour on the same hardware, or a hot core, makes one core slower than the next, for a tenth of a second or for
seconds. Two processes that take turns on different cores would differ by that. With a GPU, two threads make a step:
the program's own, and the one in which PyTorch runs the backward pass, which often has more of it.
"""

import os
from contextlib import suppress
from multiprocessing import active_children
from pathlib import Path

CORE_BYTES = 2
"""A core as it is told between processes."""

CORES_BYTES = 2 * CORE_BYTES
"""The cores of both threads."""

ANY = 0xFFFF

ANY_CORES = CORES_BYTES * b"\xff"

PROCESSOR = 36
"""The field of a thread's `stat` that has its core, after its name (proc(5))."""

THREADS = Path("/proc/self/task")

AUTOGRAD = "pt_autograd_"
"""How PyTorch names the threads of the backward pass, one for each GPU."""


class Cores:
    """The cores of this thread, and of the one of its backward passes.

    Where there is such a one, both can be held where they are: between two steps it sleeps, and the system wakes it up
    on any core. Not beside workers of a DataLoader: those that it starts meanwhile would be held for good.
    """

    def __init__(self) -> None:
        self._autograd: int | None = None
        self._allowed: dict[int, set[int]] = {}
        self._held: list[set[int]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.free)

    def leave(self) -> bytes:
        """Return on which cores the threads are, and hold them no more."""
        self.free()
        self._autograd = None if active_children() else _autograd_thread()
        return b"".join(core.to_bytes(CORE_BYTES, "little") for core in self._where())

    def go_to(self, told: bytes) -> None:
        """Let the threads go on where another program's were; held there, if it was `told` of both."""
        if len(told) != CORES_BYTES:
            return
        main, autograd = (int.from_bytes(told[at : at + CORE_BYTES], "little") for at in (0, CORE_BYTES))
        if self._autograd is not None and autograd != ANY:
            self._hold(main, autograd)
        else:
            _place(main)

    def stay(self) -> None:
        """Hold the threads where they are, each on a core of its own, if there are two."""
        if self._autograd is not None and not self._held:
            self._hold(*self._where())

    def free(self) -> None:
        """Let the threads run on all cores again, and those that they have started meanwhile."""
        if not self._held:
            return
        with suppress(OSError):
            for task in THREADS.iterdir():
                thread = int(task.name)
                with suppress(OSError):  # it has ended meanwhile
                    if os.sched_getaffinity(thread) in self._held:
                        os.sched_setaffinity(thread, self._allowed.get(thread, self._allowed[0]))
        self._held, self._allowed = [], {}

    def _where(self) -> tuple[int, int]:
        """Return the cores of both threads; ANY for one that there is not."""
        main = _core_of("/proc/thread-self/stat")
        return main, ANY if self._autograd is None else _core_of(THREADS / str(self._autograd) / "stat")

    def _hold(self, main: int, autograd: int) -> None:
        assert self._autograd is not None, "there are two threads"
        with suppress(OSError, AttributeError):
            allowed = {thread: os.sched_getaffinity(thread) for thread in (0, self._autograd)}
            both = allowed[0] & allowed[self._autograd]
            if autograd == main:
                autograd = min(both - {main}, key=lambda core: (core < main, core), default=main)
            if not {main, autograd} <= both:
                return
            self._allowed, self._held = allowed, [{main}, {autograd}]
            os.sched_setaffinity(0, {main})
            os.sched_setaffinity(self._autograd, {autograd})


def _autograd_thread() -> int | None:
    """Return the thread that has made most of the backward passes of a GPU; None where there is none."""
    found = []
    with suppress(OSError):
        for task in THREADS.iterdir():
            with suppress(OSError, IndexError, ValueError):
                if (task / "comm").read_text().startswith(AUTOGRAD):
                    found.append((int((task / "schedstat").read_text().split()[0]), int(task.name)))
    return max(found)[1] if found else None


def _core_of(stat: str | Path) -> int:
    """Return the core of a thread; ANY where Linux is not."""
    with suppress(OSError, IndexError, ValueError):
        return min(int(Path(stat).read_text().rpartition(")")[2].split()[PROCESSOR]), ANY)
    return ANY


def _place(core: int) -> None:
    """Let this thread go on there, if it may run there; the system may move it away again at any time."""
    with suppress(OSError, AttributeError):  # macOS has no such call
        allowed = os.sched_getaffinity(0)
        if core in allowed:
            os.sched_setaffinity(0, {core})
            os.sched_setaffinity(0, allowed)
