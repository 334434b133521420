"""Where in the program a call was made: the ops, functions and modules around it, its line, and the path to it."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeVar

import numpy as np

from pinprof.ground.intervals import numbered
from pinprof.ground.units import shortened
from pinprof.trace.frames import (
    LONGEST_FRAME_CHARS,
    MODULE_PREFIX,
    Frame,
    called_name,
    frame,
    is_outside_torch,
    is_user_code,
    package_file,
    tensor_method,
)
from pinprof.trace.lines import OpPlace, Place, SourceLine
from pinprof.trace.links import enclosing, follow, outermost, within
from pinprof.trace.sources import Sources, call_line, fits, loop_line
from pinprof.trace.tables import NONE, Bools, HostEvents, Int32s, Int64s, Trace, computed_once

T = TypeVar("T")
FRAMES_PER_STACK = 24  # the innermost frames of a stack that are kept; further ones too, up to the user's own code
MAX_FRAMES_INSIDE_USERS = 200
"""Frames that are kept between a call and the user's own code; a deeper stack is a recursion."""
BACKWARD_CALLER = "run_backward of"  # a part of the name of the builtin that runs the autograd engine


def outermost_op(trace: Trace, call: Int64s) -> Int32s:
    """Return the outermost op around each call that is not a node of the autograd engine, -1 for none."""
    return _outermost_ops(trace)[call]


@computed_once
def _outermost_ops(trace: Trace) -> Int32s:
    node = trace.ops.named(lambda name: "::" in name and not name.startswith("autograd::"))
    outer = outermost(node, trace.links.op, trace.links.op_parent)
    return np.where(outer != NONE, outer, trace.links.op)


def calling_function(trace: Trace, call: Int64s) -> Int32s:
    """Return the function around each call, -1 for none; of autograd's threads that which runs `backward` then."""
    return _calling_functions(trace)[call]


@computed_once
def _calling_functions(trace: Trace) -> Int32s:
    return _with_backward(trace, trace.links.function, trace.calls, np.arange(len(trace.calls)))


def function_around(trace: Trace, op: Int64s) -> Int32s:
    """Return the innermost Python function around each op, -1 for none; see `calling_function` for autograd's ops."""
    return _with_backward(trace, trace.links.op_function[op], trace.ops, op)


def _with_backward(trace: Trace, function: Int32s, events: HostEvents, row: Int64s) -> Int32s:
    """Return the functions around rows of events; for threads of the autograd engine those of the main thread."""
    main = next((index for index, thread in enumerate(trace.threads) if thread.role == "main"), NONE)
    of_engine = (function == NONE) & trace.has_role("autograd")[events.thread[row]] if len(row) else row
    orphans = np.flatnonzero(of_engine)
    if len(orphans) == 0 or len(trace.functions) == 0:
        return function
    start, end = events.start_ns[row[orphans]], events.end_ns[row[orphans]]
    order = np.argsort(start, kind="stable")
    thread = np.full(len(orphans), main, np.int32)
    meanwhile = HostEvents((), start[order], end[order], np.zeros(len(orphans), np.int32), thread)
    around = enclosing(trace.functions, meanwhile)
    backward = trace.functions.named(lambda name: BACKWARD_CALLER in name)
    in_backward = within(backward, around, trace.links.function_parent)
    result = function.copy()
    result[orphans[order]] = np.where(in_backward, around, NONE)
    return result


class UserCalls(NamedTuple):
    """Rows of Python functions, one per call, -1 for none."""

    function: Int32s  # the innermost function of the user's own code around the call
    called: Int32s  # the function that it called; the same function if nothing was recorded between it and the call


def user_calls(trace: Trace, call: Int64s) -> UserCalls:
    """Return the innermost function of the user's own code around each call, and what it called there."""
    return users_of(trace, calling_function(trace, call))


def users_of(trace: Trace, function: Int32s) -> UserCalls:
    """Return the user's function around each Python function (or itself), and what it called; -1 stands for none."""
    users, called = _innermost(trace, _are_user_code(trace), function)
    return UserCalls(users, np.where(users == NONE, NONE, np.where(called != NONE, called, users)).astype(np.int32))


@computed_once
def _are_user_code(trace: Trace) -> Bools:
    return trace.functions.named(is_user_code)


def _innermost(trace: Trace, wanted: Bools, function: Int32s) -> tuple[Int32s, Int32s]:
    """Return the innermost wanted function around each (or itself), and what it called, -1 if it is that itself."""
    parent, wanted_or_none = trace.links.function_parent, np.append(wanted, values=True)  # the last one for no function
    within_wanted = np.where(wanted_or_none[parent], NONE, parent)
    called = outermost(~wanted, np.where(wanted_or_none[function], NONE, function), within_wanted)
    return np.where(called != NONE, follow(parent, called), function), called


def call_places(trace: Trace, call: Int64s, sources: Sources, *, in_loop: bool = False) -> list[SourceLine | None]:
    """Return per call the user's function around it, None for none, with its only fitting line or (`in_loop`) loop."""
    places, which = places_of(trace, user_calls(trace, call), sources, in_loop=in_loop)
    return [places[index] for index in which.tolist()]


def usual_place(trace: Trace, calls: Int64s, sources: Sources, *, in_loop: bool = False) -> Place:
    """Return the place of most of the calls, as `call_places` does, or by known ops; an empty one if none is known."""
    if len(trace.functions):
        places = [line.place for line in call_places(trace, calls, sources, in_loop=in_loop) if line]
        return max(dict.fromkeys(places), key=places.count) if places else Place()
    known = {place.op: place.place for place in trace.info.op_places if place.op}
    places = [known[name] for name in _outermost_names(trace, calls) if name in known]
    most = max(dict.fromkeys(places), key=places.count, default=Place())
    return most if 2 * places.count(most) > len(calls) else Place()


def places_of_ops(trace: Trace, sources: Sources) -> list[OpPlace]:
    """Return the names of ops that launch work from one place of the user's code only, each with this place."""
    calls = np.flatnonzero(trace.launches_work)
    places: defaultdict[str, set[Place | None]] = defaultdict(set)
    for name, line in zip(_outermost_names(trace, calls), call_places(trace, calls, sources), strict=True):
        places[name].add(line.place if line else None)
    return [
        OpPlace(name, place.file, place.line, place.function)
        for name, (place, *others) in places.items()
        if name and not others and place and place.file is not None and place.function is not None
    ]


def _outermost_names(trace: Trace, calls: Int64s) -> list[str]:
    return [trace.ops.name_of(op) if op != NONE else "" for op in outermost_op(trace, calls).tolist()]


def places_of(
    trace: Trace, user: UserCalls, sources: Sources, *, in_loop: bool = False
) -> tuple[list[SourceLine | None], Int64s]:
    """Return the different places of the user's functions, as `call_places` does, and the index of each row's place."""
    functions, names = trace.functions, trace.functions.names
    called = np.where(user.called == user.function, NONE, user.called)
    function_name, called_as = (follow(functions.name, rows) for rows in (user.function, called))
    first, which = numbered(function_name, called_as)
    frames = cache(lambda: [at for at in map(frame, names) if at])  # only if a source is at hand: names may be many
    # whether a source has all recorded functions of its file at the recorded lines
    is_recorded = cache(
        lambda file, source: all(fits(source, at.function, at.line) for at in frames() if at.file == file)
    )
    places: list[SourceLine | None] = []
    for of_function, of_called in zip(function_name[first].tolist(), called_as[first].tolist(), strict=True):
        text = names[of_called] if of_called != NONE else ""
        place = frame(names[of_function]) if of_function != NONE else None
        if place is None:
            places.append(None)
            continue
        source, line = sources.text(place.file) if text or in_loop else None, None
        if source is not None and is_recorded(place.file, source):
            of_object = tensor_method(text) is not None
            if name := called_name(text):
                line = call_line(source, place.function, place.line, name, of_object=of_object)
            line = line or (loop_line(source, place.function, place.line) if in_loop else None)
        places.append(SourceLine(place.file, line, place.function))
    return places, which


def stack_of(trace: Trace, function: int) -> tuple[str, ...]:
    """Return a Python function and those around it, innermost first, as `kept_frames`; builtins only by name."""
    names = kept_frames(_names_around(trace, function), is_user_code)
    return tuple(_entry(place) if (place := frame(name)) else shortened(name, LONGEST_FRAME_CHARS) for name in names)


def _names_around(trace: Trace, function: int) -> Iterator[str]:
    while function != NONE:
        yield trace.functions.name_of(function)
        function = int(trace.links.function_parent[function])


def kept_frames(frames: Iterable[T], is_users: Callable[[T], bool]) -> list[T]:
    """Return the kept frames of a stack, innermost first: some, and further ones up to the user's own code."""
    stack: list[T] = []
    reached_users = False
    for entry in frames:
        reached_users = reached_users or is_users(entry)
        if reached_users or len(stack) < MAX_FRAMES_INSIDE_USERS:
            stack.append(entry)
        if reached_users and len(stack) >= FRAMES_PER_STACK:
            return stack
    return stack if reached_users else stack[:FRAMES_PER_STACK]


LONGEST_MODULE_CHARS: Final = 200  # characters of the name of a module that are kept


def module_around(trace: Trace, function: Int32s) -> Int32s:
    """Return the innermost call of a module around each Python function, -1 for none."""
    return follow(_modules(trace), function)


@computed_once
def _modules(trace: Trace) -> Int32s:
    """Return the innermost call of a module around each Python function of a trace, or itself, -1 for none."""
    is_module: Bools = trace.functions.named(lambda name: name.startswith(MODULE_PREFIX))
    if not is_module.any():
        return np.full(len(is_module), NONE, np.int32)
    parent = trace.links.function_parent
    around = np.where(is_module, np.arange(len(parent), dtype=np.int32), parent)
    further = follow(around, around)
    while (further != around).any():  # each round looks twice as far up
        around, further = further, follow(further, further)
    return around


def module_name(name: str) -> str:
    """Return the module of a recorded call, numbered within its class as torch does it: `Linear_3`."""
    return shortened(name.removeprefix(MODULE_PREFIX), LONGEST_MODULE_CHARS)


STACK_ENTRY = re.compile(r"(?P<file>.+):(?P<line>\d{1,9}):(?P<function>.+)")
"""`FILE:LINE:FUNCTION`, an entry of a stack."""
DYNAMO_PATH = "torch/_dynamo/"
"""A part of the file names of torch.compile's own frames, which are between compiled code and what that calls."""


class CallPath(NamedTuple):
    """The path from the user's code to a wait in a library."""

    library: Place | None = None
    """The innermost function outside of torch; None if that is the user's own, or was not recorded."""
    path: tuple[str, ...] = ()
    """`FILE:LINE:FUNCTION` from the user's line to `library`, without the frames of torch and Python."""


def call_path(stack: Sequence[str], user: Place, *, certain: bool) -> CallPath:
    """Return the path from the user's place through a stack to the innermost function outside of torch.

    The stack begins with the innermost frame. If its lines are not `certain`, they are those at which functions begin,
    and the library's place has no line; the same holds for a function that torch.compile made. A stack that does not
    reach the user's place gives the part of the path that it has.
    """
    inner: list[Frame] = []
    called = ""
    for entry in _frames(stack):
        if (entry.file, entry.function) == (user.file, user.function):
            break
        if is_outside_torch(entry.file):
            certain = certain and (bool(inner) or DYNAMO_PATH not in called)
            inner.append(entry._replace(file=package_file(entry.file)))
        called = entry.file
    if not inner:
        return CallPath()
    library = Place(inner[0].file, inner[0].line if certain else None, inner[0].function)
    return CallPath(library, (*_own_entry(stack, user), *(_entry(entry) for entry in reversed(inner))))


def _frames(stack: Iterable[str]) -> Iterator[Frame]:
    for entry in stack:
        if match := STACK_ENTRY.fullmatch(entry):
            yield Frame(match["file"], int(match["line"]), match["function"])


def _own_entry(stack: Sequence[str], user: Place) -> Iterator[str]:
    if user.file is None or user.function is None:
        return
    if user.line is not None:
        yield _entry(Frame(user.file, user.line, user.function))
        return
    own = (place for place in _frames(stack) if (place.file, place.function) == (user.file, user.function))
    yield from (_entry(place) for place in list(own)[:1])


def _entry(place: Frame) -> str:
    return f"{place.file}:{place.line}:{place.function}"


def library_function(trace: Trace, function: Int32s) -> Int32s:
    """Return the innermost function outside of torch around each Python function; -1 if it is the user's own."""
    own = _are_user_code(trace)
    innermost, _ = _innermost(trace, own | trace.functions.named(_is_outside_torch), function)
    return np.where(np.append(own, values=True)[innermost], NONE, innermost).astype(np.int32)


def library_place(name: str) -> Place | None:
    """Return the place of a library's function from the name of its event, which does not have the line of the call."""
    place = frame(name)
    return Place(package_file(place.file), None, place.function) if place else None


def _is_outside_torch(name: str) -> bool:
    place = frame(name)
    return place is not None and is_outside_torch(place.file)
