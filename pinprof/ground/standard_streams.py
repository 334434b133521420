"""Keeps pinprof's own standard streams usable while a program replaces `sys.stdout`, `sys.stderr` or descriptors."""

import atexit
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

if sys.platform != "win32":
    import fcntl
    import resource

FIRST_COPY_DESCRIPTOR = 900
"""Copies of descriptors get numbers from here on: programs that close all descriptors often stop at 256 or so."""

StreamIdentity = tuple[int, int, int]


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal; objects that programs put in place of streams may raise any error."""
    try:
        return bool(stream.isatty())
    except Exception:  # noqa: BLE001  an object of any kind
        return False


class OwnDescriptor:
    """A copy of a descriptor, with a number that programs rarely touch.

    A program may close the copy, too, and open a file of its own under the same number: before it is used, it is
    checked that the number is still the same file.
    """

    def __init__(self, descriptor: int) -> None:
        self._identity = _identity(descriptor)
        self.number = _copied(descriptor)

    @property
    def is_ours(self) -> bool:
        """Whether the number is still the same file."""
        return self.number >= 0 and _identity(self.number) == self._identity

    def close(self) -> None:
        """Close it, unless its number is another file's now."""
        if self.is_ours:
            os.close(self.number)
        self.number = -1


class _KeptStream:
    """A standard stream as it is now, with a copy of its descriptor."""

    def __init__(self, name: str) -> None:
        self._stream: Any = getattr(sys, name)
        self._identity: StreamIdentity | None = None
        self._copy: OwnDescriptor | None = None
        self._reopened: TextIO | None = None
        with suppress(AttributeError, OSError, ValueError):  # in a test or a notebook it has no descriptor
            descriptor = self._stream.fileno()
            self._identity = _identity(descriptor)
            self._copy = OwnDescriptor(descriptor)

    def stream(self) -> Any:
        """Return the stream if it still has the same destination; otherwise a new one to it, or to /dev/null."""
        if self._is_usable():
            return self._stream
        if self._reopened is None:
            self._reopened = self._opened()
        return self._reopened

    def _opened(self) -> TextIO:
        try:
            if self._copy and self._copy.is_ours:
                return open(self._copy.number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
            return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123
        except OSError:  # no descriptor is free
            return io.StringIO()

    def close(self) -> None:
        """Close the copy, unless its number is another file's now or it is in use."""
        if self._copy and self._reopened is None:
            self._copy.close()
        self._copy = None

    def _is_usable(self) -> bool:
        try:
            if self._stream.closed:
                return False
            return self._identity is None or _identity(self._stream.fileno()) == self._identity
        except Exception:  # noqa: BLE001  detached, or an object without these
            return False


_kept: dict[str, _KeptStream] = {}
"""Streams by their names, while a program runs."""


def own_error() -> Any:
    """Return pinprof's own standard error, not an object that a program has put in its place."""
    return _kept["stderr"].stream() if "stderr" in _kept else sys.stderr


@contextmanager
def program_may_replace_streams() -> Iterator[None]:
    """Let the block, which runs a program, do anything to the standard streams; after it, they are as before.

    Functions that run at the interpreter's exit find the program's again, which the interpreter also flushes.
    """
    if _kept:
        yield
        return
    _kept.update({name: _KeptStream(name) for name in ("stdout", "stderr")})
    try:
        yield
    finally:
        kept = dict(_kept)
        after: dict[str, Any] = {name: getattr(sys, name, None) for name in _kept}
        _kept.clear()
        for name, of_program in after.items():
            with suppress(Exception):
                of_program.flush()
            own = kept[name].stream()
            kept[name].close()
            if own is not of_program:
                setattr(sys, name, own)
                atexit.register(_return_to_program, name, own, of_program)


def _return_to_program(name: str, own: Any, of_program: Any) -> None:
    with suppress(Exception):
        own.flush()
    setattr(sys, name, of_program)


def _close_in_fork() -> None:
    """Close the copies in a fork: a reader of the output sees its end only when all processes have closed it."""
    for kept in _kept.values():
        kept.close()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_fork)


def _identity(descriptor: int) -> StreamIdentity | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_rdev


def _copied(descriptor: int) -> int:
    """Return a copy of a descriptor with a high number, which no other program inherits."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    beyond = FIRST_COPY_DESCRIPTOR if most == resource.RLIM_INFINITY or most > FIRST_COPY_DESCRIPTOR else most // 2
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, beyond)
