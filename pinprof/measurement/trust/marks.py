"""The numbers that the profiler gave the steps of a trace."""

import re

import numpy as np

from pinprof.trace.tables import Int64s, Trace
from pinprof.trace.threads import STEP_PREFIX

NUMBER = re.compile(re.escape(STEP_PREFIX) + r"(\d{1,18})")


def step_numbers(trace: Trace) -> Int64s:
    """Return the numbers of the `ProfilerStep#N` marks of the steps in order, empty where steps have none."""
    marks = trace.annotations
    if trace.steps.source != "profiler_step":
        return np.empty(0, np.int64)
    number = np.array([int(match[1]) if (match := NUMBER.fullmatch(name)) else -1 for name in marks.names], np.int64)
    marked = np.flatnonzero(number[marks.name] >= 0)
    if not len(marked):
        return np.empty(0, np.int64)
    thread = np.bincount(marks.thread[marked]).argmax()
    marked = marked[(marks.thread[marked] == thread) & np.isin(marks.start_ns[marked], trace.steps.start_ns)]
    return number[marks.name[marked]]
