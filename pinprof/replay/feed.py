"""How long a step without the profiler is in its DataLoader, as it was measured in the recorded run.

The recorded steps do not tell: while a recording begins, workers fill their queues, so that the steps in it wait for
less; and where the process makes its batches itself, the profiler slows that.
"""

from dataclasses import dataclass

from pinprof.details import Details

STARVED = 0.15
"""From this share of the step on, workers that have no batch ready set its pace. Of 37 recordings of programs with
workers, twelve have 0.28 to 0.69, the others 0.10 at most."""
HANDED_OVER_NS = 100_000.0
"""What it takes to get a batch from a thread that pins, once it is there: 0.04 to 0.15 ms in 12 recordings. Of one
program, before and after pin_memory=True, the steps were in the DataLoader for 1.6 ms and for 0.1."""


@dataclass(frozen=True)
class Feed:
    """The input of a step without the profiler; means, in ns."""

    input_ns: float
    """All its time in a DataLoader."""
    wait_ns: float
    """The part in which workers had no batch ready; 0 where the process makes the batches itself."""

    @property
    def pinned_ns(self) -> float:
        """The input if a thread received and pinned the batches of the workers, beside the step."""
        return min(self.wait_ns + HANDED_OVER_NS, self.input_ns)

    @property
    def received_ns(self) -> float:
        """What it takes to receive a batch that workers have ready; not known where the process makes them itself."""
        return self.input_ns - self.wait_ns if self.wait_ns else min(HANDED_OVER_NS, self.input_ns)

    def batch_ns(self, step_ns: float, now: int, then: int) -> float:
        """Return how far apart `then` workers bring the batches of steps, in place of `now`; 0: the process itself.

        So many workers are so many times as fast, if they need only cores. Those of now set the pace of the step.
        """
        return (now * step_ns if now else self.input_ns) / then

    def is_late(self, step_ns: float) -> bool:
        """Return whether the workers set the pace of a step of this length, unless the GPU does."""
        return self.wait_ns >= STARVED * step_ns


def feed_of(details: Details) -> Feed | None:
    """Return the input of the step; None where it was not measured, or the step takes no batch of a DataLoader."""
    timed, loader = details.course.timed if details.course else None, details.loader
    if timed is None or not timed.input_ns or not loader.wait_in_steps_ns:
        return None
    if loader.in_process:
        return Feed(timed.input_ns, 0.0)
    traced_ns = loader.wait_in_steps_ns / details.steps.count
    ready_ns = 0.0 if loader.pins else min(timed.quick_input_ns, traced_ns)
    return Feed(timed.input_ns, timed.input_ns - ready_ns)
