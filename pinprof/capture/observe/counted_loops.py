"""How many steps a program has left, by the loops around its steps that count, such as `for step in range(100)`."""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from pinprof.capture.observe.stacks import is_pinprofs
from pinprof.program.frames import is_users

LoopCode: TypeAlias = ast.For | ast.AsyncFor | ast.While
SIZED = (list, tuple)
"""Types of what a loop goes through whose length may be asked for: that of another type may run code of the program."""
MOST_TURNS = 1_000_000_000


class Turns(NamedTuple):
    """The turns of a loop; `left` does not count the one that it is in."""

    left: int
    all: int | None
    """None where that is unknown, as in `while step < 100`."""


class CountedLoops:
    """Calculates the steps that are left from those that the program made per turn since it was first asked."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None

    def steps_left(self, steps: int) -> int | None:
        """Return how many steps the calling program has left after `steps`.

        None where not all of its loops count, and before a turn has ended.
        """
        left = turns_left(sys._getframe(1))  # noqa: SLF001  the only way to the callers
        if left is None:
            self._first = None
            return None
        first_left, first_steps = self._first = self._first or (left, steps)
        turns = first_left - left
        return left * (steps - first_steps) // turns if turns > 0 else None


def turns_left(frame: FrameType | None) -> int | None:
    """Return how many turns the innermost of the program's loops around a frame has left, with those around it."""
    loops: list[Turns] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file) and not is_pinprofs(file):
            for loop in _around(frame):
                turns = _turns(loop, frame)
                if turns is None:
                    return None
                loops.append(turns)
        frame = frame.f_back
    left, in_one = 0, 1
    for place, turns in enumerate(loops):  # the innermost first
        if turns.all is None and any(outer.left for outer in loops[place + 1 :]):
            return None
        left += turns.left * in_one
        in_one *= turns.all or 1
    return min(left, MOST_TURNS) if loops else None


def _around(frame: FrameType) -> Iterator[LoopCode]:
    """Yield the loops of a function around the line that it is at, the innermost first."""
    line, first = frame.f_lineno, frame.f_code.co_firstlineno
    around = [
        loop
        for loop in _loops(frame.f_code.co_filename)
        if first <= loop.lineno and loop.body[0].lineno <= (line or 0) <= (loop.body[-1].end_lineno or 0)
    ]
    return reversed(around)


@cache
def _loops(file: str) -> tuple[LoopCode, ...]:
    """Return the loops of a source file, outer ones before those within them."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, LoopCode))


def _turns(loop: LoopCode, frame: FrameType) -> Turns | None:
    """Return the turns of a loop that a frame is in; None where they are not counted."""
    names = _Names(frame.f_locals, frame.f_globals)
    if isinstance(loop, ast.While):
        return _until(loop.test, names)
    target, counted = loop.target, loop.iter
    while isinstance(counted, ast.Call) and _called(counted) in {"tqdm", "track", "zip"} and counted.args:
        if _called(counted) == "zip" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        counted = counted.args[0]
    if not isinstance(counted, ast.Call):
        return None
    name, arguments = _called(counted), [names.value(argument) for argument in counted.args]
    if (
        name == "enumerate"
        and isinstance(target, ast.Tuple)
        and len(arguments) == 1
        and isinstance(arguments[0], SIZED)
    ):
        return _at(names.value(target.elts[0]), range(len(arguments[0])))
    integers = [argument for argument in arguments if isinstance(argument, int)]
    if name not in {"range", "trange"} or not integers or len(integers) < len(arguments) or 0 in integers[2:]:
        return None
    return _at(names.value(target), range(*integers[:3]))


def _at(value: object, turns: range) -> Turns | None:
    if not isinstance(value, int) or value not in turns:
        return None
    return Turns(len(turns) - 1 - turns.index(value), len(turns))


def _until(test: ast.expr, names: "_Names") -> Turns | None:
    """Return the turns of `while step < 100`, if each of them counts one."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt | ast.LtE)):
        return None
    now, end = names.value(test.left), names.value(test.comparators[0])
    if not (isinstance(now, int) and isinstance(end, int)):
        return None
    return Turns(max(end - now - isinstance(test.ops[0], ast.Lt), 0), None)


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


class _Names(NamedTuple):
    """The names that a frame knows."""

    local: Mapping[str, Any]
    everywhere: Mapping[str, Any]

    def value(self, node: ast.expr) -> object:
        """Return the value of a number, a name, an attribute that an object holds itself, or a sum or product of these.

        None where it is anything else: no code of the program may run.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.local.get(node.id, self.everywhere.get(node.id))
        if isinstance(node, ast.Attribute):
            held = getattr(self.value(node.value), "__dict__", {})
            return held.get(node.attr) if isinstance(held, Mapping) else None
        if isinstance(node, ast.Call) and _called(node) == "len" and len(node.args) == 1:
            sized = self.value(node.args[0])
            return len(sized) if isinstance(sized, SIZED) else None
        if isinstance(node, ast.BinOp):
            return self._calculated(node)
        return None

    def _calculated(self, node: ast.BinOp) -> int | None:
        left, right = self.value(node.left), self.value(node.right)
        if not (isinstance(left, int) and isinstance(right, int)):
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        return left // right if isinstance(node.op, ast.FloorDiv) and right else None
