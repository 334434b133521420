"""Finds the line of the user's own code in a stack of Python frames, and what that line calls."""

import ast
import dis
import gc
import linecache
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from io import FileIO
from itertools import accumulate, chain, repeat
from operator import methodcaller
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from pinprof.program.user_program import INSTALLED_FOLDERS, OWN_FOLDERS, is_installed
from pinprof.trace.callers import kept_frames
from pinprof.trace.frames import is_generated
from pinprof.trace.lines import SourceLine

MAX_HASHED_FILES = 200  # a program of more files has most of them generated, or installed in a way that is not known
MAX_KNOWN_STACKS = 10_000  # stacks that are remembered: a program has fewer places that wait, unless it generates code
DYNAMO_FOLDER = f"{os.sep}torch{os.sep}_dynamo{os.sep}"
"""A part of the file names of torch.compile's own frames, which are between compiled code and what that calls."""
OPTIMIZER_FILE = f"{os.sep}torch{os.sep}optim{os.sep}optimizer.py"  # has the wrapper around each step
Stack: TypeAlias = tuple[tuple[CodeType, int], ...]
"""The frames at one moment, innermost first, with their lines: quick to take, and readable later."""
_known: dict[tuple[str, str, tuple[int, ...]], tuple[SourceLine | None, tuple[CodeType, ...]]] = {}
"""Lines that were looked up before, with the code objects in their keys: while these exist, their ids stay valid."""


def calling_line(frame: FrameType | None, also: str = "") -> SourceLine | None:
    """Return the nearest line of the user's code, None without one; the file `also` counts as the user's."""
    key = also, _working_folder(), instructions(frame)
    looked_up = _known.get(key)
    if looked_up is None:
        if len(_known) >= MAX_KNOWN_STACKS:
            _known.clear()
        looked_up = _known[key] = nearest_line(stack_from(frame), also), codes(frame)
    return looked_up[0]


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_in_optimizer_step() -> bool:
    """Return whether an optimizer's step runs on this thread, which calls a closure now."""
    codes = (caller.f_code for caller in callers(sys._getframe()))  # noqa: SLF001
    return any(code.co_name == "wrapper" and code.co_filename.endswith(OPTIMIZER_FILE) for code in codes)


def stack_from(frame: FrameType | None) -> Stack:
    """Return a frame and its callers, each as its code and its line."""
    return tuple((caller.f_code, caller.f_lineno) for caller in callers(frame))


class _Call(NamedTuple):
    code: CodeType
    line: int
    called: str  # the file of the frame that it calls; empty for the innermost frame


def nearest_line(frames: Iterable[tuple[CodeType, int]], also: str = "") -> SourceLine | None:
    """Return the nearest line of the user's code; of a compiled one the line that calls it. See `calling_line`."""

    def is_own(call: _Call) -> bool:
        file = call.code.co_filename
        # of code that torch.compile made, the line of its calls is the first line of the function
        is_compiled = DYNAMO_FOLDER in call.called and call.line in {None, call.code.co_firstlineno}
        return not is_compiled and (file == also or is_users(file))

    kept = kept_frames(_calls(frames), is_own)
    own = next(filter(is_own, kept), None)
    if own is None:
        return None
    folder = _working_folder()
    places = [(_shown_path(call.code.co_filename, folder), call.line, call.code.co_name) for call in kept]
    return SourceLine(*places[kept.index(own)], stack=tuple(f"{file}:{line}:{name}" for file, line, name in places))


def _calls(frames: Iterable[tuple[CodeType, int]]) -> Iterator[_Call]:
    called = ""
    for code, line in frames:
        if not code.co_filename.startswith(OWN_FOLDERS):
            yield _Call(code, line, called)
            called = code.co_filename


@cache
def is_users(file: str) -> bool:
    """Return whether a file is the user's own code, and neither installed nor written by torch.compile."""
    return not (file.startswith("<") or is_installed(file) or is_generated(file))


def hashes_of_program() -> dict[str, str]:
    """Return the SHA-256 of the program's own files, by `shown_file`, each read once: an edited file did not run."""
    files = [vars(module).get("__file__") for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    own = [path for file in files if isinstance(file, str) and is_users(path := os.path.abspath(file))]  # noqa: PTH100
    hashes = {shown_file(path): _hash_of(path) for path in own[:MAX_HASHED_FILES]}
    return {file: found for file, found in hashes.items() if found}


@cache
def _hash_of(path: str) -> str:
    with suppress(OSError), FileIO(path) as file:  # the program may have replaced `open`
        return sha256(file.readall()).hexdigest()
    return ""


def shown_file(file: str) -> str:
    """Return a file's path as `_shown_path` does, for the current working directory."""
    return _shown_path(file, _working_folder())


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  asked for at each wait: Path.cwd() takes four times as long
    except FileNotFoundError:
        return ""


@cache
def _shown_path(file: str, working_folder: str) -> str:
    """Return the path of a file from its folder of installed packages, the working directory, or `sys.path` on."""
    for folder in (*sorted(INSTALLED_FOLDERS, key=len, reverse=True), working_folder, *sys.path):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return file


def frame_of_thread(thread: int) -> FrameType | None:
    """Return the innermost frame of a thread at this moment; None without such a thread.

    Python 3.11 makes the object of a frame when it is asked for, and may collect garbage then, during which other
    threads run: it returned frames that had ended, whose memory was another object's, and crashed. So the objects of
    all frames of the thread are made at once: functions in C call each other, while the collector is off.
    """
    frames: list[FrameType] = []
    was_enabled: list[bool] = []
    first = map(dict.get, map(_call, (sys._current_frames,)), (thread,))  # noqa: SLF001  the only way
    following = partial(next, accumulate(chain(first, repeat("f_back")), _attribute))
    steps = (
        partial(was_enabled.extend, map(_call, (gc.isenabled,))),
        gc.disable,
        partial(frames.extend, iter(following, None)),
        partial(next, map(_call, map((gc.disable, gc.enable).__getitem__, was_enabled))),
    )
    deque(map(_call, steps), 0)
    return next(iter(frames), None)


_call = methodcaller("__call__")
_attribute: Callable[[Any, Any], Any] = getattr


def instructions(frame: FrameType | None) -> tuple[int, ...]:
    """Return a key of a stack, quickly: the ids of its `codes`, unique as long as these are kept, and the positions."""
    key: list[int] = []
    while frame is not None:
        key += (id(frame.f_code), frame.f_lasti)
        frame = frame.f_back
    return tuple(key)


def codes(frame: FrameType | None) -> tuple[CodeType, ...]:
    """Return the code of a frame and of its callers."""
    return tuple(caller.f_code for caller in callers(frame))


SUBSCRIPT_INSTRUCTIONS = {"BINARY_SUBSCR": "[]", "STORE_SUBSCR": "[]=", "DELETE_SUBSCR": "del []", "CONTAINS_OP": "in"}
"""Instructions that run methods of objects without a call in the source."""
CONDITION_INSTRUCTIONS = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")
"""How the names of instructions begin that test whether an object is true."""
CACHE, CODE_UNIT_BYTES = "CACHE", 2
"""During a call of a Python function, the position is the last of the empty `CACHE` instructions after the call, each
of 2 bytes."""


def called_at(code: CodeType, instruction: int) -> str | None:
    """Return what an instruction calls, by its name in the source, `bool` or `[]`; None where that is not certain."""
    if not 0 <= instruction < len(code.co_code):
        return None
    while instruction and dis.opname[code.co_code[instruction]] == CACHE:
        instruction -= CODE_UNIT_BYTES
    operation = dis.opname[code.co_code[instruction]]
    if operation in SUBSCRIPT_INSTRUCTIONS:
        return SUBSCRIPT_INSTRUCTIONS[operation]
    if operation == "BINARY_OP":  # since Python 3.14 a subscript too
        return "[]" if isinstance(_expression(code, instruction), ast.Subscript) else None
    if operation.startswith(CONDITION_INSTRUCTIONS):
        return "bool"
    if operation.startswith("FORMAT_"):
        return "format"
    return _called_name(_expression(code, instruction)) if operation.startswith(("CALL", "PRECALL")) else None


def _called_name(node: ast.expr | None) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None


def _expression(code: CodeType, instruction: int) -> ast.expr | None:
    """Return the expression that an instruction belongs to; None before Python 3.11."""
    if sys.version_info < (3, 11):
        return None
    line, end_line, column, end_column = [*code.co_positions()][instruction // CODE_UNIT_BYTES]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : end_line]]
    if len(lines) != end_line - line + 1:
        return None
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
