"""The names of the steps of a trace, and their numbers: one numbering for pages, texts, figures and tables."""

import re

import numpy as np

from pinprof.trace.spans.steps import is_serving
from pinprof.trace.tables import Int64s, Trace, computed_once
from pinprof.trace.threads import STEP_PREFIX

ENDS_IN_NUMBER = re.compile(r"\d{1,15}$", re.ASCII)


def names_of_steps(trace: Trace) -> list[str]:
    """Return the name of each step in the trace (`ProfilerStep#7`); steps without distinct names count from 1."""
    steps, marks = trace.steps, trace.annotations
    counted = [f"step {number}" for number in range(1, len(steps) + 1)]
    if steps.source not in {"profiler_step", "annotation"} or is_serving(steps):  # its numbers are sizes of batches
        return counted
    names_step = np.isin(marks.start_ns, steps.start_ns)
    if steps.source == "profiler_step":
        names_step &= marks.named(lambda name: name.startswith(STEP_PREFIX))
    by_start = {int(marks.start_ns[row]): marks.name_of(row) for row in np.flatnonzero(names_step).tolist()}
    named = [by_start.get(start, "") for start in steps.start_ns.tolist()]
    return named if all(named) and len(set(named)) == len(named) else counted


@computed_once
def numbers_of_steps(trace: Trace) -> Int64s:
    """Return the number of each step: the one that ends its name if all names have one and they rise, or from 1 on."""
    ends = [ENDS_IN_NUMBER.search(name) for name in names_of_steps(trace)]
    numbers = np.array([int(end[0]) if end else -1 for end in ends], np.int64)
    rises = bool((numbers >= 0).all() and (np.diff(numbers) > 0).all())
    return numbers if rises else np.arange(1, len(numbers) + 1)
