"""Finds the line of the user's own code in a stack of Python frames."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias

from pinprof.capture.program import OWN_FOLDERS
from pinprof.capture.waiters import codes, instructions
from pinprof.trace.callers import kept_frames
from pinprof.trace.frames import is_generated
from pinprof.trace.lines import SourceLine

MOST_KNOWN = 10_000
"""Stacks that are remembered: a program has fewer places that wait, unless it makes code as it runs."""

INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

DYNAMO = f"{os.sep}torch{os.sep}_dynamo{os.sep}"
"""In the files of what stands between code that torch.compile made and what it calls."""

Stack: TypeAlias = tuple[tuple[CodeType, int], ...]
"""The frames at one moment, innermost first, with their lines: quick to take, and readable later."""


_known: dict[tuple[str, str, tuple[int, ...]], tuple[SourceLine | None, tuple[CodeType, ...]]] = {}
"""Lines that were asked for before, with what keeps the ids of their code: a step asks for the same ones again."""


def calling_line(frame: FrameType | None, also: str = "") -> SourceLine | None:
    """Return the line of the user's code nearest to a frame, at any distance; None if no frame is the user's.

    The file `also` is the user's wherever it is.
    """
    asked = also, _working_folder(), instructions(frame)
    known = _known.get(asked)
    if known is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[asked] = nearest_line(_frames(frame), also), tuple(codes(frame))
    return known[0]


def stack_from(frame: FrameType | None) -> Stack:
    """Return a frame and its callers."""
    return tuple(_frames(frame))


def _frames(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lineno
        frame = frame.f_back


class _Seen(NamedTuple):
    """A frame, and the file of the frame that it called; of the innermost none."""

    code: CodeType
    line: int
    called: str

    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile made its code: the line of a call there is the one where the function begins."""
        return DYNAMO in self.called and self.line in {None, self.code.co_firstlineno}


def nearest_line(frames: Iterable[tuple[CodeType, int]], also: str = "") -> SourceLine | None:
    """Return the nearest line of the user's code in a stack, or None; see `calling_line`.

    Of a compiled function it is the line that calls it.
    """

    def is_own(each: _Seen) -> bool:
        file = each.code.co_filename
        return not each.is_compiled and (file == also or is_users(file))

    kept = kept_frames(_seen(frames), is_own)
    own = next(filter(is_own, kept), None)
    if own is None:
        return None
    folder = _working_folder()
    places = [(_shown(each.code.co_filename, folder), each.line, each.code.co_name) for each in kept]
    return SourceLine(*places[kept.index(own)], stack=tuple(f"{file}:{line}:{name}" for file, line, name in places))


def _seen(frames: Iterable[tuple[CodeType, int]]) -> Iterator[_Seen]:
    called = ""
    for code, line in frames:
        if not code.co_filename.startswith(OWN_FOLDERS):
            yield _Seen(code, line, called)
            called = code.co_filename


@cache
def is_users(file: str) -> bool:
    """Return whether a file is the user's own code, and neither installed nor written by torch.compile."""
    if file.startswith((*INSTALLED, "<")) or is_generated(file):
        return False
    return not any(f"{os.sep}{folder}{os.sep}" in file for folder in ("site-packages", "dist-packages"))


def shown_file(file: str) -> str:
    """Return a file's path as `_shown` does, for the present working directory."""
    return _shown(file, _working_folder())


def _working_folder() -> str:
    """Return the working directory; nothing where the program removed it."""
    try:
        return os.getcwd()  # noqa: PTH109  asked for at each wait: Path.cwd() takes four times as long
    except FileNotFoundError:
        return ""


@cache
def _shown(file: str, working_folder: str) -> str:
    """Return an installed file's path in its folder, another's relative to the working directory, or to `sys.path`."""
    for folder in (*sorted(INSTALLED, key=len, reverse=True), working_folder, *sys.path):
        if folder and file.startswith(folder.rstrip(os.sep) + os.sep):
            return file[len(folder.rstrip(os.sep)) + 1 :]
    return file
