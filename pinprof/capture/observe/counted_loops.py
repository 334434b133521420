"""How many steps a program has left, by the loops around its steps that count, such as `for step in range(100)`.

No code of the program runs for that, and nothing of it changes: only numbers, names and attributes of plain types are
read. Before Python 3.13 only loops of a module count: to read a function's variables would change what its `locals()`
has returned.
"""

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType, GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any, NamedTuple, TypeAlias

from pinprof.capture.observe.stacks import is_pinprofs
from pinprof.program.frames import is_users

LoopCode: TypeAlias = ast.For | ast.AsyncFor | ast.While
INTEGERS, SIZED = (int, bool), (list, tuple)
"""Types whose values may be compared, or asked for their length: another type may run code of the program."""
MOST_TURNS = 1_000_000_000
MOST_PLACES = 1000
WARNED_OF = re.compile(rb"\\[^\n\r\\'\"abfnrtvxuUN0-7]")
"""What may be an unknown escape: Python warns of it whenever it parses the file, and the program has seen that once."""
READS_FUNCTIONS = sys.version_info >= (3, 13)


class Turns(NamedTuple):
    """The turns of a loop; `left` does not count the one that it is in."""

    left: int
    all: int | None
    """None where that is unknown, as in `while step < 100`."""


class CountedLoops:
    """Calculates the steps that are left from those that the program made per turn since it was first asked."""

    def __init__(self) -> None:
        self._first, self._last = (0, 0), 0

    def steps_left(self, steps: int) -> int | None:
        """Return how many steps the calling program has left after `steps`.

        None where not all of its loops count, and before a turn has ended.
        """
        try:
            left = turns_left(sys._getframe(1))  # noqa: SLF001  the only way to the callers
        except Exception:  # noqa: BLE001  whatever the program's objects do, it must not come out of the program's step
            left = None
        if left is None or left > self._last:  # another loop begins
            self._first = (left or 0, steps)
        self._last = left or 0
        turns = self._first[0] - self._last
        return None if left is None or turns <= 0 else left * (steps - self._first[1]) // turns


def turns_left(frame: FrameType | None) -> int | None:
    """Return how many turns the innermost of the program's loops around a frame has left, with those around it.

    None also where code that is not the program's calls one of its functions: that may be a loop, too.
    """
    loops: list[Turns] = []
    is_within = False
    while frame is not None:
        file = frame.f_code.co_filename
        if is_pinprofs(file):
            if is_within:  # it runs the program
                break
        elif is_users(file):
            is_within = True
            of_frame = _turns_in(frame)
            if of_frame is None:
                return None
            loops += of_frame
        elif is_within:
            return None
        frame = frame.f_back
    left, in_one = 0, 1
    for place, turns in enumerate(loops):  # the innermost first
        if turns.all is None and any(outer.left for outer in loops[place + 1 :]):
            return None
        left += turns.left * in_one
        in_one *= turns.all or 1
    return min(left, MOST_TURNS) if loops else None


def _turns_in(frame: FrameType) -> list[Turns] | None:
    """Return the turns of the loops that a frame is in, the innermost first; None where one of them does not count."""
    loops = _around(frame.f_code, frame.f_lineno)
    if not loops:
        return None if loops is None else []
    is_function = bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)
    if is_function and not READS_FUNCTIONS:
        return None
    local = frame.f_locals
    targets = [ast.dump(loop.target) for loop in loops if not isinstance(loop, ast.While)]
    hides = len(set(targets)) < len(targets)  # a loop's variable that of the loop around it
    if hides or not (is_function or type(local) is dict):
        return None
    turns = [_turns(loop, _Names(local, frame.f_globals)) for loop in loops]
    return None if None in turns else [of_loop for of_loop in turns if of_loop is not None]


@lru_cache(MOST_PLACES)
def _around(code: CodeType, line: int | None) -> tuple[LoopCode, ...] | None:
    """Return the loops of a function or module around one of its lines, the innermost first; None if unreadable."""
    loops = _loops(code.co_filename)
    if loops is None:
        return None
    around = [
        loop
        for loop in loops
        if code.co_firstlineno <= loop.lineno and loop.body[0].lineno <= (line or 0) <= (loop.body[-1].end_lineno or 0)
    ]
    return tuple(reversed(around))


@cache
def _loops(file: str) -> tuple[LoopCode, ...] | None:
    """Return the loops of a source file, outer ones before those within them; None if it cannot be read in silence."""
    try:
        source = Path(file).read_bytes()
        tree = ast.parse(source) if WARNED_OF.search(source) is None else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        tree = None
    return None if tree is None else tuple(node for node in ast.walk(tree) if isinstance(node, LoopCode))


def _turns(loop: LoopCode, names: "_Names") -> Turns | None:
    """Return the turns of a loop; None where they are not counted."""
    if isinstance(loop, ast.While):
        return _until(loop.test, names)
    target, counted = loop.target, loop.iter
    while isinstance(counted, ast.Call) and _called(counted) in {"tqdm", "track", "zip"} and counted.args:
        if _called(counted) == "zip" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        counted = counted.args[0]
    if not isinstance(counted, ast.Call) or counted.keywords:
        return None
    name, arguments = _called(counted), [names.value(argument) for argument in counted.args]
    if name == "enumerate" and isinstance(target, ast.Tuple) and len(arguments) == 1 and type(arguments[0]) in SIZED:
        return _at(target.elts[0], range(len(arguments[0])), names)
    is_range = name in {"range", "trange"} and 1 <= len(arguments) <= 3  # noqa: PLR2004  as range() takes
    if not is_range or any(type(argument) not in INTEGERS for argument in arguments) or 0 in arguments[2:]:
        return None
    return _at(target, range(*arguments), names)


def _at(target: ast.expr, turns: range, names: "_Names") -> Turns | None:
    value = names.value(target)
    if type(value) not in INTEGERS or value not in turns:
        return None
    return Turns(len(turns) - 1 - turns.index(value), len(turns))


def _until(test: ast.expr, names: "_Names") -> Turns | None:
    """Return the turns of `while step < 100`, if each of them counts one."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt | ast.LtE)):
        return None
    now, end = names.value(test.left), names.value(test.comparators[0])
    if type(now) not in INTEGERS or type(end) not in INTEGERS:
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

    def value(self, node: ast.expr) -> Any:
        """Return the value of a number, a name, an attribute that an object holds itself, or a sum or product of these.

        None where it is anything else: no code of the program may run.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.local[node.id] if node.id in self.local else self.everywhere.get(node.id)
        if isinstance(node, ast.Attribute):
            held = _held(self.value(node.value))
            return held.get(node.attr)
        if isinstance(node, ast.Call) and _called(node) == "len" and len(node.args) == 1:
            sized = self.value(node.args[0])
            return len(sized) if type(sized) in SIZED else None
        if isinstance(node, ast.BinOp):
            return self._calculated(node)
        return None

    def _calculated(self, node: ast.BinOp) -> int | None:
        left, right = self.value(node.left), self.value(node.right)
        if type(left) not in INTEGERS or type(right) not in INTEGERS:
            return None
        if isinstance(node.op, ast.Add):
            return int(left + right)
        if isinstance(node.op, ast.Sub):
            return int(left - right)
        if isinstance(node.op, ast.Mult):
            return int(left * right)
        return int(left // right) if isinstance(node.op, ast.FloorDiv) and right else None


def _held(holder: object) -> Mapping[str, Any]:
    """Return the attributes that an object holds itself; none where its type has a say in that."""
    getting, holding = (inspect.getattr_static(type(holder), name, None) for name in ("__getattribute__", "__dict__"))
    plain = object.__getattribute__, type.__getattribute__
    if getting not in plain or not isinstance(holding, GetSetDescriptorType | MemberDescriptorType):
        return {}
    try:
        held = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) in (dict, MappingProxyType) else {}
