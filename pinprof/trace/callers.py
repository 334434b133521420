"""Where in the program a call was made: the ops and Python functions around it, and its line where the source tells."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple, TypeVar

import numpy as np

from pinprof.trace.frames import LONGEST, Frame, called_name, frame, is_user_code, tensor_method
from pinprof.trace.lines import SourceLine
from pinprof.trace.links import enclosing, follow, outermost, within
from pinprof.trace.sources import Sources
from pinprof.trace.syntax import call_line, fits
from pinprof.trace.tables import NONE, HostEvents, Int32s, Int64s, Trace
from pinprof.units import shortened

T = TypeVar("T")

STACK_DEPTH = 24
"""Frames of a stack that are kept, innermost first; more where the user's own code is further out."""

DEEPEST_STACK = 200
"""Frames of a stack that are kept at most, besides the user's own: deeper ones are recursions."""

BACKWARD = "run_backward of"
"""In the name of the builtin that runs the autograd engine."""


def outermost_op(trace: Trace, call: Int64s) -> Int32s:
    """Return the outermost op around each call that is not a node of the autograd engine, -1 for none."""
    node = trace.ops.named(lambda name: "::" in name and not name.startswith("autograd::"))
    op = trace.links.op[call]
    found = outermost(node, op, trace.links.op_parent)
    return np.where(found != NONE, found, op)


def calling_function(trace: Trace, call: Int64s) -> Int32s:
    """Return the innermost Python function around each call, -1 for none.

    The threads of the autograd engine run no Python: their calls belong to the `backward` that the main thread is in
    meanwhile.
    """
    function = trace.links.function[call].copy()
    main = next((index for index, thread in enumerate(trace.threads) if thread.role == "main"), NONE)
    roles = np.array([thread.role == "autograd" for thread in trace.threads], dtype=bool)
    lent = np.flatnonzero((function == NONE) & roles[trace.calls.thread[call]]) if len(call) else call
    if len(lent) == 0:
        return function
    start, end = trace.calls.start_ns[call[lent]], trace.calls.end_ns[call[lent]]
    order = np.argsort(start, kind="stable")
    thread = np.full(len(lent), main, np.int32)
    meanwhile = HostEvents((), start[order], end[order], np.zeros(len(lent), np.int32), thread)
    around = enclosing(trace.functions, meanwhile)
    backward = trace.functions.named(lambda name: BACKWARD in name)
    in_backward = within(backward, around, trace.links.function_parent)
    function[lent[order]] = np.where(in_backward, around, NONE)
    return function


class UserCalls(NamedTuple):
    """Rows of Python functions, one per call, -1 for none."""

    function: Int32s
    """The innermost function of the user's own code around the call."""
    called: Int32s
    """What that function called: itself if nothing was recorded between it and the call."""


def user_calls(trace: Trace, call: Int64s) -> UserCalls:
    """Return the innermost function of the user's own code around each call, and what it called there."""
    own = trace.functions.named(is_user_code)
    function, parent = calling_function(trace, call), trace.links.function_parent
    own_or_none = np.append(own, values=True)  # the last one for no function
    within_own = np.where(own_or_none[parent], NONE, parent)
    called = outermost(~own, np.where(own_or_none[function], NONE, function), within_own)
    found = np.where(called != NONE, follow(parent, called), function)
    return UserCalls(found, np.where(found == NONE, NONE, np.where(called != NONE, called, found)).astype(np.int32))


def call_places(trace: Trace, call: Int64s, sources: Sources) -> list[SourceLine | None]:
    """Return per call the user's function around it, None for none; with its line where only one fits."""
    functions, names = trace.functions, trace.functions.names
    user = user_calls(trace, call)
    known: dict[tuple[int, str | None], SourceLine | None] = {}
    recorded_one = cache(partial(_is_the_recorded_one, _frames_by_file(names)))
    result: list[SourceLine | None] = []
    for function, called in zip(user.function.tolist(), user.called.tolist(), strict=True):
        if function == NONE:
            result.append(None)
            continue
        text = names[functions.name[called]] if called != function else ""
        key = int(functions.name[function]), called_name(text)
        if key not in known:
            known[key] = _place(names[key[0]], text, sources, recorded_one)
        result.append(known[key])
    return result


def _place(function: str, called: str, sources: Sources, recorded_one: Callable[[str, str], bool]) -> SourceLine | None:
    place, name = frame(function), called_name(called)
    if place is None:
        return None
    source = sources.text(place.file) if name else None
    line = None
    if name and source is not None and recorded_one(place.file, source):
        line = call_line(source, place.function, place.line, name, of_object=tensor_method(called) is not None)
    return SourceLine(place.file, line, place.function)


def _frames_by_file(names: Iterable[str]) -> Mapping[str, list[Frame]]:
    frames: dict[str, list[Frame]] = defaultdict(list)
    for name in names:
        if each := frame(name):
            frames[each.file].append(each)
    return frames


def _is_the_recorded_one(frames: Mapping[str, list[Frame]], file: str, source: str) -> bool:
    """Return whether a source has all recorded functions of its file at the recorded lines."""
    return all(fits(source, each.function, each.line) for each in frames[file])


def stack_of(trace: Trace, function: int) -> tuple[str, ...]:
    """Return a Python function and those around it, innermost first, as `kept_frames`; builtins by their name alone."""
    names = kept_frames(_names_around(trace, function), is_user_code)
    return tuple(
        f"{place.file}:{place.line}:{place.function}" if (place := frame(name)) else shortened(name, LONGEST)
        for name in names
    )


def _names_around(trace: Trace, function: int) -> Iterator[str]:
    while function != NONE:
        yield trace.functions.name_of(function)
        function = int(trace.links.function_parent[function])


def kept_frames(frames: Iterable[T], is_users: Callable[[T], bool]) -> list[T]:
    """Return the frames of a stack, innermost first, that are kept.

    These are STACK_DEPTH, and all up to the innermost of the user's own code; of a stack that is deeper than
    DEEPEST_STACK before it reaches that, it alone beyond.
    """
    stack: list[T] = []
    found = False
    for each in frames:
        found = found or is_users(each)
        if found or len(stack) < DEEPEST_STACK:
            stack.append(each)
        if found and len(stack) >= STACK_DEPTH:
            return stack
    return stack if found else stack[:STACK_DEPTH]
