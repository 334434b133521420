"""Calls that read a clock of the host, by what they are imported as or called."""

import re
from collections.abc import Iterable

import libcst as cst

from pinprof.fix.calls import last_name
from pinprof.fix.source import SourceFile

CLOCKS = {
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "default_timer"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
    *("now", "utcnow"),
}
"""Last names of functions that read a clock, in whatever library."""
IN_FULL = {"os.times", "resource.getrusage", "datetime.datetime.today"}
"""Clocks whose last name alone may be another function's."""
NAMES = CLOCKS | {name for each in IN_FULL for name in each.split(".")} | {"timeit", "datetime"}
"""Names of which a program that reads a clock has one, in an import or a call."""
NO_CLOCKS = {"torch.cuda.Event", "threading.Timer", "torch.cuda.synchronize"}
WORDS = {
    *("timer", "timers", "timeit", "timed", "timing", "timings", "stopwatch", "clock", "chrono", "chronometer"),
    *("elapsed", "lap", "tic", "toc", "benchmark", "speedometer", "throughput"),
}
"""Words in names of functions and objects that the program does not show and that measure time."""
OF_EVENTS = "elapsed_time"
AS_TEXT = {"strftime", "isoformat"}
"""Methods that make a name or a line of a log of a date: no program computes with it."""


def is_clock(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether a name is that of a function which reads a clock: `time.perf_counter`, however it is imported."""
    named = source.qualified(node) or ""
    last = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    is_known = last in CLOCKS or named.rpartition(".")[2] in CLOCKS or named in IN_FULL
    return is_known or named.startswith("timeit.")


def is_clock_of_python(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Return whether a name is that of Python's own clocks, or of the module that has them."""
    named = source.qualified(node) or ""
    return named in {"time", "timeit", *IN_FULL} or (
        named.startswith(("time.", "timeit.", "datetime.")) and is_clock(source, node)
    )


def reads_clock(source: SourceFile, call: cst.Call) -> bool:
    """Return whether a call reads a clock, and not only to make a text of it."""
    around = source.parent(call)
    if isinstance(around, cst.Attribute) and around.value is call and around.attr.value in AS_TEXT:
        return False
    return is_clock(source, call.func)


def may_read_clock(source: SourceFile, call: cst.Call) -> bool:
    """Return whether the names of a call whose function the program does not show are those of a timer."""
    named = source.qualified(call.func) or ""
    if named in NO_CLOCKS or last_name(call) == OF_EVENTS:
        return False
    return is_timer([*source.names_in(call.func), *named.split(".")])


def is_timer(names: Iterable[str]) -> bool:
    """Return whether one of some names has a word of what measures time in it."""
    return any(word.lower() in WORDS for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))
