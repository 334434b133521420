"""Changes a function of torch while a program is watched, and puts it back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import getattr_static
from typing import Any


@contextmanager
def replaced(holder: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Change an attribute of a class or module within the block; an inherited one is covered."""
    own = name in vars(holder)
    before = getattr_static(holder, name)
    setattr(holder, name, change(before))
    try:
        yield
    finally:
        if own:
            setattr(holder, name, before)
        else:
            delattr(holder, name)
