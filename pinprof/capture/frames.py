"""Finds the line of the user's own code in a stack of Python frames."""

import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType

from pinprof.capture.program import OWN_FOLDER
from pinprof.trace.callers import STACK_DEPTH
from pinprof.trace.lines import SourceLine

INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def calling_line(frame: FrameType | None, also: str = "") -> SourceLine | None:
    """Return the line of the user's code nearest to a frame, however far; None if no frame is the user's.

    The file `also` is the user's wherever it lies.
    """
    stack: list[str] = []
    found: tuple[str, int, str] | None = None
    while frame is not None and (found is None or len(stack) < STACK_DEPTH):
        code = frame.f_code
        if not code.co_filename.startswith(OWN_FOLDER):
            file = _shown(code.co_filename)
            stack.append(f"{file}:{frame.f_lineno}:{code.co_name}")
            if found is None and (code.co_filename == also or _is_users(code.co_filename)):
                found = file, frame.f_lineno, code.co_name
        frame = frame.f_back
    return SourceLine(*found, stack=tuple(stack[:STACK_DEPTH])) if found else None


def _is_users(file: str) -> bool:
    return not file.startswith((*INSTALLED, "<")) and f"{os.sep}site-packages{os.sep}" not in file


def _shown(file: str) -> str:
    """Return a file's name as people know it: from the working directory, else from the entry of `sys.path`."""
    for folder in (str(Path.cwd()), *sys.path):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return file
