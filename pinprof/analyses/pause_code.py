"""Which Python code runs in the pauses of the host, by the Python functions that a trace recorded.

The time of a pause belongs to the innermost open function. A library is named by two functions: the outermost one that
launches no work (functions above it run the step, too), and the function within it that takes most of the time.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, covered, intersect, numbered, subtract, union
from pinprof.trace.callers import UserCalls, calling_function, places_of
from pinprof.trace.frames import OWN_FILES, Frame, frame, is_torch_builtin, is_user_file, package_of
from pinprof.trace.lines import PauseCode, Place
from pinprof.trace.sources import ANONYMOUS_SCOPES, Sources
from pinprof.trace.tables import NONE, Int64s, Trace

MAIN_SHARE_OF_CALLER: Final = 0.5
"""A function that takes a larger share of its caller's time than this is where the time goes."""
PROFILERS: Final = ("torch/profiler/", *OWN_FILES)
"""Files of profilers: a step without a profiler spends no time in them."""
WRAPPER_FUNCTIONS: Final = frozenset(
    {"_call_impl", "_wrapped_call_impl", "decorate_context", "wrapper", "wrapped", "inner", "__call__", "__enter__"}
)
"""Functions that only call others: their names say nothing about the code."""


@dataclass(frozen=True)
class PausedCode:
    """What runs in the pauses of the complete steps; times in ns."""

    total_ns: float  # the length of all pauses in which a Python function is open
    outside_ns: float  # the part in calls into torch that run no op: no Python code runs there
    places: tuple[PauseCode, ...]  # the rest by place, the longest first


class _Tree(NamedTuple):
    """A tree of Python calls, in columns; calls of one name with one caller are one node, and callers come first."""

    parent: Int64s
    name: Int64s
    row: Int64s  # one of its calls: a row of `Trace.functions`
    own_ns: Int64s  # time in pauses, without the functions that it calls
    paused_ns: Int64s  # time in pauses, with them
    launches: Int64s  # how many calls launch work in it, and in the functions that it calls


def code_in_pauses(trace: Trace, sources: Sources, pauses: Intervals) -> PausedCode | None:
    """Return what runs in pauses of the main thread; None where no Python functions were recorded in them."""
    steps = trace.steps
    complete = union(steps.start_ns[steps.complete], steps.end_ns[steps.complete])
    within = intersect(pauses, complete)
    tree = _tree_of(trace, within, complete)
    if tree is None:
        return None
    walk = _Walk(trace, sources, tree, within)
    places, outside = walk.places(), walk.outside_ns
    total = sum(place.ns for place in places) + outside
    return PausedCode(total, outside, tuple(places)) if total else None


def _tree_of(trace: Trace, pauses: Intervals, complete: Intervals) -> _Tree | None:
    functions, parents = trace.functions, trace.links.function_parent
    of_main = trace.has_role("main")[functions.thread]
    of_backward = trace.has_role("autograd")[functions.thread]
    wall = covered(complete, functions.start_ns, functions.end_ns)
    wall[~(of_main | of_backward)] = 0
    rows = np.flatnonzero(wall)
    hooks = functions.times(of_backward)
    paused = np.zeros(len(functions), np.int64)
    for of_thread, times in ((of_main, subtract(pauses, hooks)), (of_backward, pauses)):  # during hooks, main waits
        in_thread = rows[of_thread[rows]]
        paused[in_thread] = covered(times, functions.start_ns[in_thread], functions.end_ns[in_thread])
    if not paused.any():
        return None
    own = paused.copy()
    nested = rows[parents[rows] != NONE]
    np.subtract.at(own, parents[nested], paused[nested])
    node = np.full(len(functions), NONE, np.int64)
    columns: list[tuple[Int64s, Int64s, Int64s]] = []
    count = 0
    while len(rows):  # one level of the tree after the other
        above = parents[rows]
        is_ready = (above == NONE) | (node[above] != NONE)
        level, rows = rows[is_ready], rows[~is_ready]
        if not len(level):
            break
        caller = np.where(parents[level] == NONE, NONE, node[parents[level]])
        first, which = numbered(caller, functions.name[level])
        node[level] = count + which
        columns.append((caller[first], functions.name[level[first]].astype(np.int64), level[first]))
        count += len(first)
    in_tree = np.flatnonzero(node != NONE)
    launching = calling_function(trace, np.flatnonzero(trace.launches_work))
    launching = node[launching[launching != NONE]]
    launches = np.bincount(launching[launching != NONE], minlength=count)

    def summed(times: Int64s) -> Int64s:
        return np.bincount(node[in_tree], times[in_tree], minlength=count).astype(np.int64)

    parent, name, row = (np.concatenate(column) for column in zip(*columns, strict=True))
    for number in range(count - 1, -1, -1):  # callers come before what they call
        if parent[number] != NONE:
            launches[parent[number]] += launches[number]
    return _Tree(parent, name, row, np.maximum(summed(own), 0), summed(paused), launches)


class _Key(NamedTuple):
    """Identifies a place: the user's function, what it calls, and the library's functions and package."""

    user: int  # a node, -1 for none
    called: int  # the node that the user's function calls; -1 for the function's own code
    library: tuple[str, ...]
    package: str
    node: int = NONE  # the library's function; -1 if the time is its caller's

    @property
    def is_own_code(self) -> bool:
        """Whether it is the program's own code, and no library's."""
        return self.user != NONE and not (self.library or self.package)


class _Walk:
    """Walks through a tree, and assigns each part of the pauses to a place."""

    def __init__(self, trace: Trace, sources: Sources, tree: _Tree, pauses: Intervals) -> None:
        self.outside_ns = 0.0
        self._pauses = pauses
        self._trace, self._sources, self._tree = trace, sources, tree
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for node in np.flatnonzero(tree.paused_ns).tolist():
            self._children[int(tree.parent[node])].append(node)

    def places(self) -> list[PauseCode]:
        """Return the places, the longest time first."""
        times: defaultdict[_Key, float] = defaultdict(float)
        own: defaultdict[str, list[tuple[_Key, float]]] = defaultdict(list)
        for key, ns in self._parts():
            if key.is_own_code:
                own[self._name(key.user)].append((key, ns))
            else:
                times[key] += ns
        for parts in own.values():
            times[self._main_key(parts)] += sum(ns for _, ns in parts)
        merged: dict[tuple[Place, str, str], PauseCode] = {}
        for key, ns in sorted(times.items(), key=lambda item: -item[1]):  # the longest names the innermost function
            place, first = self._place(key), key.library[0] if key.library else ""
            known = merged.get((place, key.package, first))
            merged[place, key.package, first] = (
                replace(known, ns=known.ns + ns) if known else PauseCode(*place, key.library, key.package, ns)
            )
        return sorted(merged.values(), key=lambda code: -code.ns)

    def _main_key(self, parts: list[tuple[_Key, float]]) -> _Key:
        """Return one key for a function of the program; it names a builtin that takes more than half of the time."""
        by_called: defaultdict[str, float] = defaultdict(float)
        for key, ns in parts:
            by_called[self._builtin(key)] += ns
        most = max(by_called, key=by_called.__getitem__)
        if by_called[most] > MAIN_SHARE_OF_CALLER * sum(by_called.values()):
            parts = [part for part in parts if self._builtin(part[0]) == most]
            return max(parts, key=lambda part: part[1])[0]
        return max(parts, key=lambda part: part[1])[0]._replace(called=NONE)

    def _builtin(self, key: _Key) -> str:
        return self._name(key.called) if key.called != NONE else ""

    def _parts(self) -> Iterator[tuple[_Key, float]]:
        """Yield the time of each part of the pauses with the key of its place, callers first."""
        open_nodes = [(node, NONE, NONE) for node in self._children[NONE]]
        while open_nodes:
            node, user, called = open_nodes.pop()
            name, own = self._name(node), float(self._tree.own_ns[node])
            place = frame(name)
            if place is not None and place.file.startswith(PROFILERS):
                continue
            if self._is_of_user(node):
                user, called = (node, NONE) if self._is_own_place(node, user) else (user, called)
                yield _Key(user, called if called != NONE and self._is_plain_builtin(called) else NONE, (), ""), own
            elif is_torch_builtin(name):
                self.outside_ns += own
            elif self._is_plain_builtin(node) and (called == NONE or self._is_plain_builtin(called)):
                called = node if user != NONE else NONE
                yield _Key(user, called, (), ""), own
            else:
                in_library = called != NONE and not self._is_plain_builtin(called)
                called = node if user != NONE and not in_library else called
                if place is not None and not self._tree.launches[node]:
                    callbacks = self._called_back(node)
                    yield self._of_library(node, user, called, place, callbacks)
                    open_nodes += [(callback, user, called) for callback in callbacks]
                    continue
                label = (place.function,) if place is not None and not _says_nothing(place) else ()
                yield _Key(user, called, label, _package(place)), own
            open_nodes += [(child, user, called) for child in self._children[node]]

    def _is_of_user(self, node: int) -> bool:
        place = frame(self._name(node))
        return place is not None and is_user_file(place.file)

    def _is_own_place(self, node: int, user: int) -> bool:
        """Return whether a function of the program is a place of its own, not a part of the function that calls it."""
        place, around = frame(self._name(node)), frame(self._name(user)) if user != NONE else None
        is_part = place is not None and place.function in ANONYMOUS_SCOPES
        return not (is_part and around is not None and place is not None and around.file == place.file)

    def _is_plain_builtin(self, node: int) -> bool:
        """Return whether a node is a builtin of Python, whose time counts as that of its caller."""
        name = self._name(node)
        return name.startswith("<") and frame(name) is None and not is_torch_builtin(name)

    def _called_back(self, node: int) -> list[int]:
        """Return the functions of the program that a library's function calls back, without their callees."""
        callbacks, within = [], list(self._children[node])
        while within:
            inner = within.pop()
            if self._is_of_user(inner):
                callbacks.append(inner)
            else:
                within += self._children[inner]
        return callbacks

    def _of_library(
        self, node: int, user: int, called: int, place: Frame, callbacks: Sequence[int]
    ) -> tuple[_Key, float]:
        """Return the key and the Python time of a library's function that launches nothing.

        `callbacks` are the functions of the program that it calls back; they have a time of their own.
        """
        outside = self._torch_builtins_ns(node)
        self.outside_ns += outside
        inner = self._innermost(node)
        names = [at.function for at in (place, frame(self._name(inner))) if at is not None and not _says_nothing(at)]
        key = _Key(user, called, tuple(dict.fromkeys(names)), _package(place), node)
        of_program = sum(float(self._tree.paused_ns[callback]) for callback in callbacks)
        return key, float(self._tree.paused_ns[node]) - outside - of_program

    def _torch_builtins_ns(self, node: int) -> float:
        """Return the time of a node in builtins of torch, without the functions of the program that it calls back."""
        own = float(self._tree.own_ns[node]) if is_torch_builtin(self._name(node)) else 0.0
        library = [child for child in self._children[node] if not self._is_of_user(child)]
        return own + sum(map(self._torch_builtins_ns, library))

    def _innermost(self, node: int) -> int:
        """Return the function within a node that takes more than half of its time, the innermost with a name."""
        named = node
        while True:
            most_ns = MAIN_SHARE_OF_CALLER * self._tree.paused_ns[node]
            below = [child for child in self._children[node] if self._tree.paused_ns[child] > most_ns]
            below = [child for child in below if not self._is_of_user(child)]
            if not below:
                return named
            node = below[0]
            place = frame(self._name(node))
            if place is not None and not _says_nothing(place):
                named = node

    def _name(self, node: int) -> str:
        return self._trace.functions.names[self._tree.name[node]]

    def _place(self, key: _Key) -> Place:
        if key.user == NONE:
            return Place()
        user = self._tree.row[[key.user]].astype(np.int32)
        called = user if key.called == NONE else self._tree.row[[key.called]].astype(np.int32)
        (line,), _ = places_of(self._trace, UserCalls(user, called), self._sources)
        return line.place if line else Place()


def _package(place: Frame | None) -> str:
    return "" if place is None or place.file.startswith("<") else package_of(place.file)


def _says_nothing(place: Frame) -> bool:
    return place.function in ANONYMOUS_SCOPES or place.function in WRAPPER_FUNCTIONS or place.file.startswith("<")
