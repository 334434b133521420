"""The warm-up: skips steps until their time is steady."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pinprof.capture.plain import NS_PER_S, Clock, Progress

COMPARED_STEPS = 5
"""Steps are steady if the median of so many is close to that of as many before them."""
STEADY = 0.1
"""How much the two medians may differ, as a share of the larger; host-bound steps vary by about that much."""


@dataclass(frozen=True)
class WarmUpBounds:
    """When the warm-up ends: after `steps` if their time is steady, or after `max_steps` or `max_seconds`."""

    steps: int = 10
    max_steps: int = 100
    max_seconds: float = 120.0


def warm_up(
    clock: Clock, bounds: WarmUpBounds, may_wait: Callable[[], bool] = lambda: True
) -> Generator[Progress, None, float]:
    """Wait at every step boundary until the steps are steady or a bound is reached; return the time of a step in ns.

    That is the median of the last steps. It does not touch the device. After the fewest steps, `may_wait` returns
    whether to wait for steady ones.
    """
    marks_ns = [clock.now_ns()]
    while not _is_over(marks_ns, bounds) and (len(marks_ns) <= bounds.steps or may_wait()):
        yield Progress("warm-up", len(marks_ns), bounds.steps)
        marks_ns.append(clock.now_ns())
    times = [end - start for start, end in pairwise(marks_ns)]
    return median(times[-COMPARED_STEPS:]) if times else 0.0


def _is_over(marks_ns: Sequence[int], bounds: WarmUpBounds) -> bool:
    steps = len(marks_ns) - 1
    if steps < bounds.steps:
        return False
    too_long = steps >= bounds.max_steps or marks_ns[-1] - marks_ns[0] >= bounds.max_seconds * NS_PER_S
    return too_long or is_steady([end - start for start, end in pairwise(marks_ns)])


def is_steady(times: Sequence[int]) -> bool:
    """Return whether the last steps took about as long as those before them; true for fewer than two steps."""
    compared = min(COMPARED_STEPS, len(times) // 2)
    if compared == 0:
        return True
    late, early = median(times[-compared:]), median(times[-2 * compared : -compared])
    return abs(late - early) <= STEADY * max(late, early)
