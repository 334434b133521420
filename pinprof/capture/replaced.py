"""Changes a function of torch while a program runs, and restores it."""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import getattr_static
from typing import Any

from pinprof.capture.faults import contained

IMMUTABLE = 1 << 8
"""The flag of classes with read-only attributes (Py_TPFLAGS_IMMUTABLETYPE), such as most classes in C."""


@contextmanager
def replaced(holder: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Change an attribute of a class or module in the block; the change hides an inherited one."""
    own = name in vars(holder)
    before = getattr_static(holder, name)
    _set(holder, name, change(before))
    try:
        yield
    finally:
        contained(_put_back)(holder, name, before if own else None)


def _put_back(holder: Any, name: str, before: Any) -> None:
    if before is not None:
        _set(holder, name, before)
    else:
        delattr(holder, name)


def noting(note: Callable[..., object]) -> Callable[[Any], Any]:
    """Return a change of a function: after each call, it passes the result and the arguments to `note`."""

    def change(function: Any) -> Any:
        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            note(result, *args, **kwargs)
            return result

        return noted

    return change


def _set(holder: Any, name: str, value: Any) -> None:
    if not (isinstance(holder, type) and holder.__flags__ & IMMUTABLE):
        setattr(holder, name, value)
        return
    (attributes,) = gc.get_referents(vars(holder))  # the dictionary under Python's read-only view
    attributes[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(holder))
