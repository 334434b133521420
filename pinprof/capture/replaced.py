"""Changes a function of torch while a program is watched, and puts it back."""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import getattr_static
from typing import Any

IMMUTABLE = 1 << 8
"""The flag of classes whose attributes Python does not set (Py_TPFLAGS_IMMUTABLETYPE); most of those written in C."""


@contextmanager
def replaced(holder: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Change an attribute of a class or module within the block; an inherited one is covered."""
    own = name in vars(holder)
    before = getattr_static(holder, name)
    _set(holder, name, change(before))
    try:
        yield
    finally:
        if own:
            _set(holder, name, before)
        else:
            delattr(holder, name)


def noting(note: Callable[..., object]) -> Callable[[Any], Any]:
    """Return what makes a function hand its result and its arguments to `note` once it returns."""

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
    (attributes,) = gc.get_referents(vars(holder))  # what the read-only view that Python gives is a view of
    attributes[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(holder))
