"""Names of a trace on a page, cut to a length that one can read."""

import re

import numpy as np

from pinprof.report.words import cut, printable
from pinprof.trace.serving import is_serving
from pinprof.trace.tables import Int64s, Trace
from pinprof.trace.threads import STEP_PREFIX

MAX_LABEL = 40
"""Longest label in characters."""

DECORATION = re.compile(r"^void |\(anonymous namespace\)::|^autograd::engine::evaluate_function: ")
ENDS_IN_NUMBER = re.compile(r"\d{1,15}$", re.ASCII)
ARGUMENTS = re.compile(r"(?<=\w)[<(].*", re.DOTALL)


def step_names(trace: Trace) -> list[str]:
    """Return what the trace calls each step (`ProfilerStep#7`); steps without names of their own count from 1."""
    steps, marks = trace.steps, trace.annotations
    counted = [f"step {number}" for number in range(1, len(steps) + 1)]
    if steps.source not in {"profiler_step", "annotation"} or is_serving(steps):  # its numbers are sizes of batches
        return counted
    wanted = np.isin(marks.start_ns, steps.start_ns)
    if steps.source == "profiler_step":
        wanted &= marks.named(lambda name: name.startswith(STEP_PREFIX))
    by_start = {int(marks.start_ns[row]): marks.name_of(row) for row in np.flatnonzero(wanted).tolist()}
    named = [cut(by_start.get(start, "")) for start in steps.start_ns.tolist()]
    return named if all(named) and len(set(named)) == len(named) else counted


def shown_numbers(trace: Trace) -> Int64s:
    """Return by which number each step goes: that which its name ends in, if all do and rise; else from 1."""
    ends = [ENDS_IN_NUMBER.search(name) for name in step_names(trace)]
    numbers = np.array([int(end[0]) if end else -1 for end in ends], np.int64)
    rises = bool((numbers >= 0).all() and (np.diff(numbers) > 0).all())
    return numbers if rises else np.arange(1, len(numbers) + 1)


def short(name: str) -> str:
    """Return what is left of a name without its template arguments: of a kernel the template's own name; plain text."""
    plain = DECORATION.sub("", printable(name))
    head = ARGUMENTS.sub("", plain)
    if head != plain:
        head = head.rsplit("::", maxsplit=1)[-1]
    return head if len(head) <= MAX_LABEL else head[: MAX_LABEL - 1] + "…"
