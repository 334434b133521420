"""Which calls launch GPU work, and for which of them the trace lacks that work."""

import re
from typing import NamedTuple

import numpy as np

from pinprof.ground.intervals import contains, union
from pinprof.trace.tables import Bools, Calls, Trace, computed_once
from pinprof.trace.vendors import BEGIN_CAPTURE, COPY_CALL, END_CAPTURE, GRAPH_LAUNCH, KERNEL_LAUNCH

HOST_LAUNCH = re.compile(r"HostFunc|AddCallback|WaitValue|ExternalSemaphores")
"""Calls after which a stream waits for the host, or for another program."""


class LaunchCalls(NamedTuple):
    """What each call launches. Memsets do not count: CUPTI leaves out some of cuDNN's and cuBLAS's."""

    kernel: Bools
    copy: Bools
    graph: Bools
    linked: Bools
    """Whether the trace has its GPU work."""
    expected: Bools
    """Whether the trace should have its work: it was launched in a complete step, or before the last launch whose work
    is there (later work may run after the end of the recording); and no graph was captured, which runs nothing."""

    @property
    def direct(self) -> Bools:
        """Whether it launches kernels or copies without a graph."""
        return self.kernel | self.copy

    @property
    def lost(self) -> Bools:
        """Whether the trace should have its work and does not."""
        return self.expected & ~self.linked


@computed_once
def launches_of(trace: Trace) -> LaunchCalls:
    """Return what each call launches, and whether the trace has that work."""
    calls, links = trace.calls, trace.links
    linked = trace.launches_work
    last = calls.start_ns[linked].max(initial=np.iinfo(np.int64).min)
    expected = (trace.steps.holds(links.call_step) | (calls.start_ns <= last)) & ~_captured(calls)
    kernel, copy, graph = (calls.named(pattern.fullmatch) for pattern in (KERNEL_LAUNCH, COPY_CALL, GRAPH_LAUNCH))
    return LaunchCalls(kernel, copy, graph, linked, expected)


def launching(calls: Calls) -> Bools:
    """Return for each call whether it launches kernels, copies or graphs."""
    return np.any([calls.named(pattern.fullmatch) for pattern in (KERNEL_LAUNCH, COPY_CALL, GRAPH_LAUNCH)], axis=0)


def may_await_host(calls: Calls) -> bool:
    """Return whether GPU work may have waited, in its stream, for the host or another program."""
    return bool(calls.named(HOST_LAUNCH.search).any())


def _captured(calls: Calls) -> Bools:
    """Return for each call whether it was made while a stream was captured into a graph."""
    begin = calls.start_ns[calls.named(BEGIN_CAPTURE.fullmatch)]
    ends = calls.end_ns[calls.named(END_CAPTURE.fullmatch)]
    if len(begin) == 0:
        return np.zeros(len(calls), bool)
    following = np.searchsorted(ends, begin)
    never = np.iinfo(np.int64).max
    return contains(union(begin, np.append(ends, never)[following]), calls.start_ns)
