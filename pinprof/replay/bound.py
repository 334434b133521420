"""What sets the pace of a step: one rule for what is measured, what is predicted from it, and what is compared."""

from pinprof.analyses.idle import IDLE
from pinprof.details import Details
from pinprof.replay.feed import feed_of

GPU, HOST, INPUT, COMMUNICATION = "gpu", "host", "input", "communication"
BOUNDS = {
    GPU: "the GPU is the limit: it works nearly all the time, or its queued work waits for other work",
    HOST: "the host is the limit: the GPU waits for its launches, or for it to stage copies",
    INPUT: "the input is the limit: the GPU waits for the next batch",
    COMMUNICATION: "communication is the limit: the GPU is in collectives, or waits for other ranks in them",
}
"""What sets the pace of a step, before and after what a what-if changes."""
GPU_BOUND = 0.9
"""A step in which the GPU is busy for this share of the time is bound by the GPU; the rest are gaps between kernels."""
COMMUNICATION_BOUND = 0.5
"""Share of the step from which collectives that nothing hides are its limit: a GPU that waits counts as busy."""
HIDDEN_LOADER = 1.25
"""A step without profiler that is longer than the recorded one by this factor waited for input, where nobody measured
that: hardly anything else is faster under a profiler. While the recording began, the DataLoader's workers filled their
queue."""
QUEUED = 0.5
"""Where work is queued for this share of the time in which the GPU is not busy, it does not wait for the host. The
rest may be copies of pageable memory, whose pace the host sets."""


def is_gpu_bound(busy_ns: float, step_ns: float) -> bool:
    """Return whether the GPU's work at its own pace takes nearly the whole step.

    Copies of pageable memory are not in `busy_ns`: the host sets their pace, piece by piece.
    """
    return busy_ns >= GPU_BOUND * step_ns


def bound_of(details: Details, step_ns: float | None) -> str | None:
    """Return what limits a step of this length: `host`, `gpu`, `input` or `communication`; None without GPU work."""
    steps = details.steps
    if not step_ns or steps.busy_ns is None:
        return None
    feed = feed_of(details)
    if feed is None and details.loader.waits and step_ns > HIDDEN_LOADER * (steps.traced_ns or step_ns):
        return INPUT
    if is_gpu_bound(steps.busy_ns, step_ns):
        exposed_ns = details.communication.exposed_ns / steps.divisor
        return COMMUNICATION if exposed_ns >= COMMUNICATION_BOUND * step_ns else GPU
    if feed is not None and feed.is_late(step_ns):
        return INPUT
    busiest = max(details.devices, key=lambda device: device.busy_ns)
    cause, idle_ns = busiest.idle_by_cause[0] if busiest.idle_by_cause else ("host_wait", 0)
    if cause == "kernel_wait":
        return GPU if idle_ns >= QUEUED * steps.divisor * ((steps.traced_ns or step_ns) - steps.busy_ns) else HOST
    return IDLE[cause].bound
