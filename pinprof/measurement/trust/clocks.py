"""Doubts about times that contradict each other."""

import numpy as np

from pinprof.measurement.trust.doubt import CAUSES, DRAIN, ESTIMATE, MATTERS, STALLS, Doubt, TrustFacts, only_if
from pinprof.trace.tables import NONE, Bools, Trace
from pinprof.units import counted, duration, percent

CLOCKS_AGREE_NS = 2_000
"""GPU and host clocks agree to about a microsecond, and old traces are rounded to whole ones: a start up to this much
before its launch means nothing."""
LATENCY_NS = 20_000
"""A launch takes about 5 µs on the host and as long until the GPU starts, under a profiler up to 20 µs. If the clocks
differ by more, work that was launched late seems queued, and queued work seems launched late."""


def clock_skew(facts: TrustFacts) -> Doubt | None:
    """Report GPU work that starts before the call that launched it began (kineto#1380).

    The clocks differ if many of the activities that could start at once start too early; single records may be wrong.
    Then not even the waits are right: launches seem to wait for their kernels.
    """
    trace = facts.trace
    gpu, launch = trace.gpu, trace.links.launch
    linked = np.flatnonzero(launch != NONE)
    lead = trace.calls.start_ns[launch[linked]] - gpu.start_ns[linked]
    early, far = lead > CLOCKS_AGREE_NS, lead > LATENCY_NS
    if not early.any():
        return None
    at_once = int(_after_idle_stream(trace)[linked].sum())
    apart = far.sum() >= MATTERS * max(at_once, 1) and far.any()
    return Doubt(
        f"{counted(int(early.sum()), 'GPU activity starts', 'GPU activities start')} before the launch, by up to "
        f"{duration(int(lead.max()))}",
        "the clocks of host and GPU differ"
        if apart
        else "what the host waited for is uncertain by as much; other figures are not affected",
        "record again; if this persists, with a newer driver and torch",
        only_if(apart, STALLS, DRAIN, CAUSES, ESTIMATE),
    )


def same_stream_overlap(facts: TrustFacts) -> Doubt | None:
    """Report activities that run at the same time on one stream: allowed to some kernels, an artefact on ROCm."""
    gpu = facts.trace.gpu
    total, twice, count = int(gpu.duration_ns.sum()), 0, 0
    for rows in gpu.of_stream:
        reach = np.maximum.accumulate(gpu.end_ns[rows])[:-1]
        both = np.minimum(reach, gpu.end_ns[rows[1:]]) - gpu.start_ns[rows[1:]]
        twice += int(both[both > 0].sum())
        count += int((both > 0).sum())
    if not twice or twice < MATTERS * total:
        return None
    return Doubt(
        f"{counted(count, 'GPU activity runs', 'GPU activities run')} while another one of their stream runs "
        f"({percent(twice / total)} of their time)",
        "the GPU's working time counts overlapping kernels once, so the kernels' own times add up to more",
        "this is normal with programmatic dependent launch; on ROCm the times of kernels are uncertain",
    )


def _after_idle_stream(trace: Trace) -> Bools:
    """Return for each activity whether its stream was idle before it for longer than a launch takes."""
    gpu = trace.gpu
    result = np.zeros(len(gpu), bool)
    for rows in gpu.of_stream:
        reach = np.maximum.accumulate(gpu.end_ns[rows])
        result[rows[0]] = True
        result[rows[1:]] = gpu.start_ns[rows[1:]] - reach[:-1] > LATENCY_NS
    return result
