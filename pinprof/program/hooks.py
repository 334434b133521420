"""Keeps pinprof's hooks harmless: contains their failures, replaces functions and restores them, waits for imports.

All code of pinprof that a program calls without knowing it (a hook of torch, a changed function, a signal handler) goes
through `contained`. What ends a program on purpose (`StopRequested`, Ctrl-C) is not an `Exception`, and passes.
"""

import ctypes
import gc
import os
import sys
import traceback
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from inspect import getattr_static
from types import ModuleType
from typing import Any

from pinprof.ground.errors import TRACEBACK_VARIABLE, unexpected
from pinprof.ground.standard_streams import own_error


class Faults:
    """The failures of pinprof in this process; `output` gets a sentence on each."""

    def __init__(self) -> None:
        self.output: Callable[[str], None] = _say
        self.sentences: list[str] = []

    def note(self, error: Exception, then: str = ". The program runs on") -> None:
        """Say once that pinprof failed, and why; this never raises."""
        with suppress(Exception):
            self.say(f"{unexpected(error)}{then}")
            if os.environ.get(TRACEBACK_VARIABLE):
                traceback.print_exception(error, file=own_error())

    def say(self, text: str) -> None:
        """Pass this sentence to `output`, once."""
        if text not in self.sentences:
            self.sentences.append(text)
            self.output(text)


def _say(text: str) -> None:
    with suppress(Exception):
        stream = own_error()
        stream.write(f"{text}\n")
        stream.flush()


faults = Faults()  # the failures of this process


def contained(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of pinprof, made safe for the program to call: if it fails, it returns None."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever it is, it is not the program's
            faults.note(error)
            return None

    return called


def start_unlisted(run: Callable[[], object]) -> Callable[[float], bool]:
    """Let a daemon thread run this, which the program does not find among its threads; return how to wait for it."""
    ends = allocate_lock()
    ends.acquire()

    def running() -> None:
        try:
            contained(run)()
        finally:
            ends.release()

    start_new_thread(running, ())
    return lambda within_s: ends.acquire(timeout=within_s)


IMMUTABLE_TYPE_FLAG = 1 << 8
"""The flag of classes with read-only attributes (Py_TPFLAGS_IMMUTABLETYPE), such as most classes in C."""


@contextmanager
def replaced(holder: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Replace an attribute of a class or module in the block by what `change` makes of it; it hides inherited ones."""
    own = name in vars(holder)
    before = getattr_static(holder, name)
    _set(holder, name, change(before))
    try:
        yield
    finally:
        contained(_set)(holder, name, before if own else None)


def preceded(act: Callable[..., object]) -> Callable[[Any], Any]:
    """Return a change for `replaced`: before each call, `act` gets the arguments."""

    def change(function: Any) -> Any:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            act(*args, **kwargs)
            return function(*args, **kwargs)

        return called

    return change


def noting(note: Callable[..., object]) -> Callable[[Any], Any]:
    """Return a change for `replaced`: after each call, the function passes result and arguments to `note`."""

    def change(function: Any) -> Any:
        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            note(result, *args, **kwargs)
            return result

        return noted

    return change


def _set(holder: Any, name: str, value: Any) -> None:
    """Set an attribute; None deletes it."""
    if value is None:
        delattr(holder, name)
        return
    if not (isinstance(holder, type) and holder.__flags__ & IMMUTABLE_TYPE_FLAG):
        setattr(holder, name, value)
        return
    (attributes,) = gc.get_referents(vars(holder))  # the dictionary under Python's read-only view
    attributes[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(holder))


def when_imported(name: str, act: Callable[[], None]) -> None:
    """Call `act` after the program has imported the top-level module; at once if it has."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Waiting(name, act))


class _Waiting(MetaPathFinder):
    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec, whose loader also acts; None for all other modules."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._executing(spec.loader)  # type: ignore[assignment, method-assign]
        return spec

    def _executing(self, loader: Loader) -> Callable[[ModuleType], None]:
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            del loader.exec_module  # this loader stays in the module's __spec__
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                contained(self._act)()

        return executed
