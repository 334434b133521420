"""What sets the pace of a step: the GPU, the host, the input, or other ranks."""

from dataclasses import dataclass

from pinprof.analyses.idle import IDLE
from pinprof.details import Details

STARVED_SHARE_OF_STEP = 0.15
"""If workers have no batch ready for at least this share of the step, they set its pace. Of 37 recordings of programs
with workers, twelve have 0.28 to 0.69, the others 0.10 at most."""
HANDED_OVER_NS = 100_000.0
"""The time to get a ready batch from a thread that pins: 0.04 to 0.15 ms in 12 recordings. The steps of one program
were in the DataLoader for 1.6 ms before pin_memory=True, and for 0.1 ms after it."""


@dataclass(frozen=True)
class Feed:
    """The input of a step without the profiler, as measured in the recorded run; means, in ns.

    The recorded steps do not show it: while a recording begins, workers fill their queues, so its steps wait less; and
    if the process makes its batches itself, the profiler slows that.
    """

    input_ns: float  # the step's time in a DataLoader
    wait_ns: float  # the part in which workers had no batch ready; 0 if the process makes the batches itself

    @property
    def pinned_ns(self) -> float:
        """The input if a thread received and pinned the batches of the workers during the step."""
        return min(self.wait_ns + HANDED_OVER_NS, self.input_ns)

    @property
    def received_ns(self) -> float:
        """The time to receive a ready batch from workers; an assumed one if the process makes batches itself."""
        return self.input_ns - self.wait_ns if self.wait_ns else min(HANDED_OVER_NS, self.input_ns)

    def batch_ns(self, step_ns: float, now: int, then: int) -> float:
        """Return the time between batches with `then` workers in place of `now`; `now` is 0 for the process itself.

        Twice the workers are taken to be twice as fast, and the present ones to set the pace of the step.
        """
        return (now * step_ns if now else self.input_ns) / then

    def is_late(self, step_ns: float) -> bool:
        """Return whether the workers set the pace of a step of this length, unless the GPU does."""
        return self.wait_ns >= STARVED_SHARE_OF_STEP * step_ns


def feed_of(details: Details) -> Feed | None:
    """Return the input of the step; None if it was not measured, or the step takes no batch of a DataLoader."""
    timed, loader = details.whole_run.timed if details.whole_run else None, details.loader
    if timed is None or not timed.input_ns or not loader.wait_in_steps_ns:
        return None
    if loader.in_process:
        return Feed(timed.input_ns, 0.0)
    traced_ns = loader.wait_in_steps_ns / details.steps.count
    received_ns = timed.input_ns * details.receiving_share
    ready_ns = 0.0 if loader.pins else min(timed.quick_input_ns, traced_ns, received_ns)
    return Feed(timed.input_ns, timed.input_ns - ready_ns)


BOUND_BY_GPU, BOUND_BY_HOST, BOUND_BY_INPUT, BOUND_BY_COLLECTIVES = "gpu", "host", "input", "communication"
BOUND_WORDS = {
    BOUND_BY_GPU: "the GPU sets the pace: it works nearly all the time, or its queued work waits for other work",
    BOUND_BY_HOST: "the host sets the pace: the GPU waits for launches, or for copies that the host stages",
    BOUND_BY_INPUT: "the input sets the pace: the GPU waits for the next batch",
    BOUND_BY_COLLECTIVES: "collectives set the pace: the GPU runs them, or waits in them for other ranks",
}
GPU_BOUND_SHARE = 0.9
"""A step in which the GPU is busy for this share of the time is bound by the GPU; the rest are gaps between kernels."""
COLLECTIVES_SHARE_OF_STEP = 0.5
"""If exposed collectives take this share of the step, they set its pace. A GPU that waits in them counts as busy."""
LOADER_SLACK = 1.25
"""If the input was not measured, a step without the profiler that is longer than the recorded one by this factor waited
for input: hardly anything else is faster under a profiler. The workers filled their queues while the recording
began."""
QUEUED_SHARE_OF_IDLE = 0.5
"""If work is queued for this share of the time in which the GPU is not busy, the GPU does not wait for the host. The
rest may be copies of pageable memory, whose pace the host sets."""


def is_gpu_bound(busy_ns: float, step_ns: float) -> bool:
    """Return whether the GPU's work at its own pace takes nearly the whole step.

    `busy_ns` must not contain copies of pageable memory: the host sets their pace.
    """
    return busy_ns >= GPU_BOUND_SHARE * step_ns


def bound_of(details: Details, step_ns: float | None) -> str | None:
    """Return what limits a step of this length: `host`, `gpu`, `input` or `communication`; None without GPU work."""
    steps = details.steps
    if not step_ns or steps.busy_ns is None:
        return None
    feed = feed_of(details)
    if feed is None and details.loader.waits and step_ns > LOADER_SLACK * (steps.traced_ns or step_ns):
        return BOUND_BY_INPUT
    if is_gpu_bound(steps.busy_ns, step_ns):
        exposed_ns = details.communication.exposed_ns / steps.divisor
        return BOUND_BY_COLLECTIVES if exposed_ns >= COLLECTIVES_SHARE_OF_STEP * step_ns else BOUND_BY_GPU
    if feed is not None and feed.is_late(step_ns):
        return BOUND_BY_INPUT
    busiest = max(details.devices, key=lambda device: device.busy_ns)
    cause, idle_ns = busiest.idle_by_cause[0] if busiest.idle_by_cause else ("host_wait", 0)
    if cause == "kernel_wait":
        return (
            BOUND_BY_GPU
            if idle_ns >= QUEUED_SHARE_OF_IDLE * steps.divisor * ((steps.traced_ns or step_ns) - steps.busy_ns)
            else BOUND_BY_HOST
        )
    return IDLE[cause].bound
