"""Reads the names of `python_function` events: file, function, and whether the frame is the user's own code."""

import re
import sys
from typing import NamedTuple

FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
"""`train.py(348): train`, as torch/csrc/autograd/profiler_python.cpp composes it."""

INSTALLED = re.compile(r"(^|/)(site-packages|dist-packages|python3(\.\d+)?)/|^<")
"""Paths of installed libraries, of the standard library, and files that are none (`<string>`, `<frozen runpy>`)."""

OWN = ("pinprof/capture/", "pinprof/cli/", "pinprof/__main__.py")
"""Frames of pinprof around the program that it records."""

LIBRARIES = frozenset({"torch"}) | sys.stdlib_module_names
"""First part of the path of code that is not the user's: torch shortens file names by the entries of `sys.path`."""


class Frame(NamedTuple):
    """A Python function as a trace names it."""

    file: str
    line: int
    """Not the line of the call: where the function begins, or where it stood when the recording began."""
    function: str


def frame(name: str) -> Frame | None:
    """Return the frame of a `python_function` event's name, None for a builtin or a module call."""
    match = FRAME.fullmatch(name)
    return Frame(match["file"], int(match["line"]), match["function"]) if match else None


def is_user_code(name: str) -> bool:
    """Return whether the name of a `python_function` event is a function in the user's own code."""
    parsed = frame(name)
    if parsed is None or INSTALLED.search(parsed.file) or parsed.file.startswith(OWN):
        return False
    return parsed.file.split("/", maxsplit=1)[0].removesuffix(".py") not in LIBRARIES
