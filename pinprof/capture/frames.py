"""Finds the line of the user's own code in a stack of Python frames."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeAlias

from pinprof.capture.program import OWN_FOLDERS
from pinprof.trace.callers import STACK_DEPTH
from pinprof.trace.lines import SourceLine

INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

Stack: TypeAlias = tuple[tuple[CodeType, int], ...]
"""The frames at one moment, innermost first, with their lines: quick to take, and readable later."""


def calling_line(frame: FrameType | None, also: str = "") -> SourceLine | None:
    """Return the line of the user's code nearest to a frame, at any distance; None if no frame is the user's.

    The file `also` is the user's wherever it is.
    """
    return nearest_line(_frames(frame), also)


def stack_from(frame: FrameType | None) -> Stack:
    """Return a frame and its callers."""
    return tuple(_frames(frame))


def _frames(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lineno
        frame = frame.f_back


def nearest_line(frames: Iterable[tuple[CodeType, int]], also: str = "") -> SourceLine | None:
    """Return the nearest line of the user's code in a stack, or None; see `calling_line`."""
    stack: list[str] = []
    found: tuple[str, int, str] | None = None
    for code, line in frames:
        if not code.co_filename.startswith(OWN_FOLDERS):
            file = _shown(code.co_filename)
            stack.append(f"{file}:{line}:{code.co_name}")
            if found is None and (code.co_filename == also or is_users(code.co_filename)):
                found = file, line, code.co_name
        if found and len(stack) >= STACK_DEPTH:
            break
    return SourceLine(*found, stack=tuple(stack[:STACK_DEPTH])) if found else None


def is_users(file: str) -> bool:
    """Return whether a file is the user's own: not of an installed library, nor of Python."""
    return not file.startswith((*INSTALLED, "<")) and f"{os.sep}site-packages{os.sep}" not in file


def _shown(file: str) -> str:
    """Return a file's path relative to the working directory, else to its entry of `sys.path`."""
    for folder in (str(Path.cwd()), *sys.path):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return file
