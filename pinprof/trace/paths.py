"""The way from the user's line to a wait: the innermost function outside of torch, and the frames that lead to it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pinprof.trace.frames import Frame, frame, is_outside_torch, is_user_code, package_file
from pinprof.trace.lines import Place
from pinprof.trace.links import follow, outermost
from pinprof.trace.tables import NONE, Int32s, Trace

ENTRY = re.compile(r"(?P<file>.+):(?P<line>\d{1,9}):(?P<function>.+)")
"""`FILE:LINE:FUNCTION`, an entry of a stack."""

DYNAMO = "torch/_dynamo/"
"""In the files of what stands between code that torch.compile made and what it calls."""


class CallPath(NamedTuple):
    """How the user's code came to a wait, if it called a library that waits."""

    library: Place | None = None
    """The innermost function outside of torch; None where that is the user's own, or not recorded."""
    path: tuple[str, ...] = ()
    """`FILE:LINE:FUNCTION` from the user's line to it, without the frames of torch and Python; none without it."""


def call_path(stack: Sequence[str], user: Place, *, certain: bool) -> CallPath:
    """Return the way from the user's place through a stack to the innermost function outside of torch.

    The stack begins with the innermost frame. Where its lines are not `certain`, they are those at which functions
    begin, and the library's place has none; nor has that of a function that torch.compile made. A stack that does not
    reach the user's place tells the way as far as it reaches.
    """
    inner: list[Frame] = []
    called = ""
    for each in _frames(stack):
        if (each.file, each.function) == (user.file, user.function):
            break
        if is_outside_torch(each.file):
            certain = certain and (bool(inner) or DYNAMO not in called)
            inner.append(each._replace(file=package_file(each.file)))
        called = each.file
    if not inner:
        return CallPath()
    library = Place(inner[0].file, inner[0].line if certain else None, inner[0].function)
    return CallPath(library, (*_own_entry(stack, user), *(_entry(each) for each in reversed(inner))))


def _frames(stack: Iterable[str]) -> Iterator[Frame]:
    """Yield the frames of a stack that are functions of a file."""
    for entry in stack:
        if match := ENTRY.fullmatch(entry):
            yield Frame(match["file"], int(match["line"]), match["function"])


def _own_entry(stack: Sequence[str], user: Place) -> Iterator[str]:
    if user.file is None or user.function is None:
        return
    if user.line is not None:
        yield _entry(Frame(user.file, user.line, user.function))
        return
    own = (each for each in _frames(stack) if (each.file, each.function) == (user.file, user.function))
    yield from (_entry(each) for each in list(own)[:1])


def _entry(each: Frame) -> str:
    return f"{each.file}:{each.line}:{each.function}"


def library_function(trace: Trace, function: Int32s) -> Int32s:
    """Return the innermost function outside of torch around each Python function; -1 where it is the user's own."""
    own = trace.functions.named(is_user_code)
    kept = own | trace.functions.named(_is_outside_torch)
    parent = trace.links.function_parent
    kept_or_none = np.append(kept, values=True)  # the last one for no function
    within_kept = np.where(kept_or_none[parent], NONE, parent)
    called = outermost(~kept, np.where(kept_or_none[function], NONE, function), within_kept)
    found = np.where(called != NONE, follow(parent, called), function)
    return np.where(np.append(own, values=True)[found], NONE, found).astype(np.int32)


def library_place(name: str) -> Place | None:
    """Return the place of a library's function from the name of its event: the line of the call is not in it."""
    found = frame(name)
    return Place(package_file(found.file), None, found.function) if found else None


def _is_outside_torch(name: str) -> bool:
    found = frame(name)
    return found is not None and is_outside_torch(found.file)
