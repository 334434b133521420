"""Calls that read a clock of the host, by what they are imported as or called."""

import re
from collections.abc import Iterable

import libcst as cst

from pinprof.fix.core.calls import last_name
from pinprof.fix.core.source import SourceFile

CLOCKS = {
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "default_timer"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
    *("now", "utcnow", "cpu_times"),
}
"""Last names of functions that read a clock, in whatever library."""
IN_FULL = {
    *("os.times", "resource.getrusage", "datetime.datetime.today", "numpy.datetime64"),
    *("time.localtime", "time.gmtime", "time.ctime", "time.asctime"),
}
"""Clocks whose last name alone may be another function's."""
OF_BAR = "format_dict"
"""The attribute by which bars of tqdm give the time since they began, and the rate of steps."""
NAMES = {*CLOCKS, *(each.rpartition(".")[2] for each in IN_FULL), "time", "timeit", "datetime", OF_BAR}
"""Names of which a program that reads a clock has one, in an import or a call."""
NO_CLOCKS = {"torch.cuda.Event", "threading.Timer", "torch.cuda.synchronize", "torch.utils.benchmark.Timer"}
"""Names that look like clocks: events are the GPU's, and the benchmark's timer waits for it."""
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
    last = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    return last in CLOCKS or any(
        named.rpartition(".")[2] in CLOCKS or named in IN_FULL or named.startswith("timeit.")
        for named in source.meanings(node)
    )


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
    words = (word for name in names for word in (name.replace("_", ""), *re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)))
    return any(word.lower() in WORDS for word in words)
