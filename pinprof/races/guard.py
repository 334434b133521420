"""`pinprof.guard()`: watches the asynchronous copies in a block, or of a whole script, and finds the unsafe ones."""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import getpid
from typing import Literal, get_args
from weakref import WeakSet

from pinprof.ground.errors import PinprofError, UnsafeCopyError
from pinprof.ground.units import counted
from pinprof.program.ending import ending_of
from pinprof.program.user_program import UserProgram, exit_as_fork
from pinprof.program.waits import has_compiled
from pinprof.races.gpu import Gpu
from pinprof.races.operators import Operators, beyond_operators, in_new_threads, registered_memory
from pinprof.races.streams import following_streams, warned_of_waits
from pinprof.races.violation import Violation
from pinprof.races.watch import Watch
from pinprof.trace.lines import Place

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

Mode = Literal["warn", "raise", "collect"]
NO_GPU = "torch sees no GPU, so there was no copy to follow."
NOTHING_TO_FOLLOW = "There was no asynchronous copy between pinned memory and a GPU to follow."
NOTHING_TO_FOLLOW = "There was no asynchronous copy between pinned memory and a GPU to follow."
COMPILED_UNSEEN = "torch.compile has compiled code: the guard sees only its inputs and outputs"


class UnsafeCopyWarning(RuntimeWarning):
    """Host memory was used before its asynchronous copy was known to have ended."""


class Guard:
    """The context manager that `guard()` returns, with its results."""

    def __init__(
        self, mode: Mode = "warn", *, on_found: Callable[[Violation], None] = lambda _: None, gpu: Gpu | None = None
    ) -> None:
        if mode not in get_args(Mode):
            raise PinprofError(f"mode={mode!r}: choose one of {', '.join(get_args(Mode))}")
        self.mode = mode
        self._on_found = on_found
        self._gpu = gpu or Gpu()
        self._undo = ExitStack()
        self._watch: Watch | None = None
        self._violations: dict[tuple[Place, Place, bool], Violation] = {}
        self._lock = threading.Lock()
        self._compiled = False

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations so far, once for each pair of places, in order; some may be safe (`is_certain`)."""
        return tuple(self._violations.values())

    @property
    def is_clean(self) -> bool:
        """Whether no violation is certain."""
        return not any(violation.is_certain for violation in self.violations)

    @property
    def followed(self) -> int:
        """How many asynchronous copies between pinned memory and a GPU the guard has followed so far."""
        return self._watch.followed if self._watch else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the program does that the guard cannot see."""
        return (*sorted(self._watch.notes if self._watch else ()), *([COMPILED_UNSEEN] if self._compiled else ()))

    def __enter__(self) -> Self:
        if self._watch is not None:
            raise PinprofError("this guard was already used; make a new one for each block")
        with ExitStack() as undo:
            on_copy = undo.enter_context(warned_of_waits(self._gpu.cuda))
            watch = Watch(self._gpu, self._take, on_copy)
            undo.enter_context(following_streams(watch))
            undo.enter_context(registered_memory(watch))
            undo.enter_context(beyond_operators(watch))
            mode = undo.enter_context(Operators(watch))
            undo.enter_context(in_new_threads(mode))
            self._watch = watch
            _watches.add(watch)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        self._compiled = has_compiled()
        if self._watch is not None:
            self._watch.forget()

    def __str__(self) -> str:
        clean = NOTHING_TO_FOLLOW if self._gpu.is_there() else NO_GPU
        if self.followed:
            copies = counted(self.followed, "asynchronous copy", "asynchronous copies")
            clean = f"No unsafe use of host memory was seen: {copies} followed."
        parts = [str(violation) for violation in self.violations] or [clean]
        return "\n\n".join(parts + [f"Not seen: {note}." for note in self.notes])

    def _take(self, violation: Violation) -> None:
        key = violation.copy.place, violation.access.place, violation.is_certain
        with self._lock:
            earlier = self._violations.get(key)
            self._violations[key] = replace(earlier, times=earlier.times + 1) if earlier else violation
        if earlier is None:
            self._on_found(violation)
        if self.mode == "raise" and violation.is_certain:
            raise UnsafeCopyError(str(violation))
        if self.mode == "warn" and earlier is None:
            warnings.warn_explicit(str(violation), UnsafeCopyWarning, violation.access.file, violation.access.line or 0)


def guard(mode: Mode = "warn") -> Guard:
    """Return a context manager that finds uses of host memory before its asynchronous copy has ended.

        with pinprof.guard():
            train(model, loader)

    An access is safe only if something made sure that the copy had ended: a synchronize, a query of an event or a
    stream, or a blocking copy after it. Whether it had in fact ended does not matter, but the report says so. `mode`:
    `warn` issues an UnsafeCopyWarning once for each pair of places; `raise` raises UnsafeCopyError before the access;
    `collect` only fills `violations`, as the others do too.

    The guard sees the operators of this thread, of autograd's threads, and of threads that begin in the block.

    Raises PinprofError for another mode.
    """
    return Guard(mode)


_watches: WeakSet[Watch] = WeakSet()


def _forget_all() -> None:
    """Make all watches forget their copies in a forked process, which cannot use CUDA."""
    for watch in _watches:
        watch.forget()


os.register_at_fork(after_in_child=_forget_all)


def run_guarded(script: str | os.PathLike[str], args: Sequence[str], guard: Guard, *, module: bool = False) -> int:
    """Run a script or module in a guard, as python would; return its exit status. Raises CaptureError if it is gone."""
    program, process = UserProgram.at(script, args, module=module), getpid()
    with program.as_main() as main, guard:
        status = ending_of(program, main, None).exit_status
    if getpid() != process:
        exit_as_fork(status)
    return status
