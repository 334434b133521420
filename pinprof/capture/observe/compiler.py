"""What torch.compile recorded of its own work: its graph breaks, and the guards that failed.

This imports nothing of torch: a program that has not compiled has nothing to read here.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pinprof.program.frames import is_users, shown_file
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import CompilerNote

MAX_COMPILER_NOTES: Final = 20
LONGEST_REASON_CHARS: Final = 160
RESUMED_FUNCTION: Final = re.compile(r"torch_dynamo_resume_in_(?P<function>.+)_at_\d+")
"""How Dynamo names the rest of a function after a graph break."""
RUNS_UNCOMPILED: Final = ", for which the whole function runs without compiling"
CODE_NUMBER: Final = re.compile(r"^\d+/\d+: ")
"""The number of the compiled code, which stands before the guard that failed: `0/1: tensor 'x' size mismatch`."""
BUILTIN_CALL: Final = re.compile(r"debug context: builtin (\w+)")
VALUE_BRANCH: Final = "generic_jump TensorVariable"


def compiled_frames() -> int:
    """Return how many frames torch.compile has compiled."""
    utils = _dynamo()
    return int(utils.counters["frames"]["total"]) if utils is not None else 0


def graph_breaks() -> tuple[CompilerNote, ...]:
    """Return where the graph breaks, and why; the most frequent places first."""
    noted = getattr(_dynamo(), "graph_break_reasons", ())
    breaks = [(_user_place(broken.user_stack), _short_reason(broken.reason)) for broken in noted if broken.graph_break]
    for compiled in _compilations():
        if compiled.fail_reason and (file := compiled.fail_user_frame_filename):
            place = Place(shown_file(file), compiled.fail_user_frame_lineno, compiled.co_name)
            breaks.append((place, f"{_short_reason(compiled.fail_reason)}{RUNS_UNCOMPILED}"))
    return _notes(breaks)


def recompilations() -> tuple[CompilerNote, ...]:
    """Return which functions were compiled again, and which guard failed; the most frequent first."""
    return _notes(
        (_function(compiled), CODE_NUMBER.sub("", compiled.recompile_reason).partition("\n")[0])
        for compiled in _compilations()
        if compiled.recompile_reason
    )


def last_compiled() -> Place | None:
    """Return the function that was compiled last, at the line where it begins; None where that is unknown."""
    compiled = _compilations()
    return _function(compiled[-1]) if compiled else None


def _dynamo() -> Any:
    return sys.modules.get("torch._dynamo.utils")


class _Compiled(NamedTuple):
    """What Dynamo recorded of a compilation, under the names of its CompilationMetrics."""

    co_filename: str
    co_firstlineno: int
    co_name: str
    recompile_reason: str | None  # None also in versions of torch that do not record it
    fail_reason: str | None
    fail_user_frame_filename: str | None
    fail_user_frame_lineno: int | None


def _compilations() -> list[_Compiled]:
    """Return what Dynamo recorded of each of its last 64 compilations."""
    read = getattr(_dynamo(), "get_compilation_metrics", list)
    compilations = (_Compiled._make(getattr(row, name, None) for name in _Compiled._fields) for row in read())
    return [compiled for compiled in compilations if compiled.co_filename and compiled.co_name]


def _notes(noted: Iterable[tuple[Place, str]]) -> tuple[CompilerNote, ...]:
    reasons: dict[Place, str] = {}
    counts: Counter[Place] = Counter()
    for place, reason in noted:
        counts[place] += 1
        reasons[place] = reason[:LONGEST_REASON_CHARS]
    return tuple(CompilerNote(place, reasons[place], count) for place, count in counts.most_common(MAX_COMPILER_NOTES))


def _user_place(stack: Any) -> Place:
    frames = list(stack)
    frame = next((frame for frame in reversed(frames) if is_users(frame.filename)), frames[-1] if frames else None)
    return Place(shown_file(frame.filename), frame.lineno, frame.name) if frame is not None else Place()


def _function(compiled: _Compiled) -> Place:
    resumed = RESUMED_FUNCTION.fullmatch(compiled.co_name)
    name = resumed["function"] if resumed else compiled.co_name
    return Place(shown_file(compiled.co_filename), compiled.co_firstlineno, name)


def _short_reason(reason: str) -> str:
    if reason.startswith(VALUE_BRANCH):
        return "a branch on the value of a tensor"
    builtin = BUILTIN_CALL.search(reason)
    return f"{builtin[1]}()" if builtin else reason.partition("\n")[0]
