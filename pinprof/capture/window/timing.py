"""The windows without a profiler: the warm-up, until steps are steady, and the plain window, which times them."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

import numpy as np

from pinprof.analyses.whole_run import next_irregular_work, regular_since, timed_regular_step
from pinprof.capture.observe.journal import Journal
from pinprof.capture.observe.sampler import sampling
from pinprof.capture.options import MIN_TIMED_STEPS, NS_PER_S, WARM_UP_S, Progress, RecordingOptions
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.step_statistics import Series
from pinprof.ground.units import NS_PER_MS
from pinprof.program.loaders import BatchSource
from pinprof.trace.metadata.run_log import IRREGULAR_WORK, TIMING_WINDOW
from pinprof.trace.metadata.sampled_stacks import HostProfile

COMPARED_STEPS = 5
"""Steps are steady if the median of the last COMPARED_STEPS is close to that of the COMPARED_STEPS before them."""
STEADY_SHARE = 0.1
"""How much the two medians may differ, as a share of the larger; host-bound steps vary by about that much."""


def warm_up(
    journal: Journal, options: RecordingOptions, may_wait: Callable[[], bool]
) -> Generator[Progress, None, float]:
    """Wait until steps are steady, or as long as `may_wait` says; return the median of the last ones in ns."""
    clock, batches = journal.clock, journal.batch_source
    marks_ns = [clock.now_ns()]
    while not _is_over(marks_ns, options, batches) and (len(marks_ns) <= options.warmup or may_wait()):
        yield Progress("warm-up", len(marks_ns), options.warmup)
        marks_ns.append(clock.now_ns())
    times = np.diff(marks_ns)
    return float(np.median(times[-COMPARED_STEPS:])) if len(times) else 0.0


def _is_over(marks_ns: Sequence[int], options: RecordingOptions, batches: BatchSource) -> bool:
    steps = len(marks_ns) - 1
    if steps < options.warmup:
        return False
    if steps >= max(options.warmup, options.max_warmup) or marks_ns[-1] - marks_ns[0] >= WARM_UP_S * NS_PER_S:
        return True
    is_unsteady = marks_ns[-1] - marks_ns[options.warmup] >= UNSTEADY_S * NS_PER_S
    return not batches.is_filling and (is_unsteady or is_steady(np.diff(marks_ns).tolist()))


def is_steady(times: Sequence[int]) -> bool:
    """Return whether the last steps took about as long as those before them; true for fewer than two steps."""
    compared = min(COMPARED_STEPS, len(times) // 2)
    if compared == 0:
        return True
    late, early = median(times[-compared:]), median(times[-2 * compared : -compared])
    return abs(late - early) <= STEADY_SHARE * max(late, early)


UNSTEADY_S = 3.0  # stop waiting for steady steps after this time: many programs are short
GPU_TIMING_S, HOST_TIMING_S = 5.0, 10.0
"""With a GPU, the window ends after GPU_TIMING_S, precise or not: many programs are short. Without one, the steps after
the recorded ones are timed for HOST_TIMING_S together with those before: a person waits for the report."""
PRECISION_CHECK_FACTOR = 1.25
"""The precision is calculated again after PRECISION_CHECK_FACTOR times the steps of the last time."""


@dataclass(frozen=True)
class PlainWindow:
    """The step without a profiler: `mean_ms` over the whole window, the rest over single steps."""

    steps: int
    mean_ms: float
    p10_ms: float
    p90_ms: float

    @classmethod
    def of(cls, times_ns: Sequence[int] | Series, mean_ms: float) -> "PlainWindow":
        """Return the window with these steps, and this mean over it."""
        return cls(len(times_ns), mean_ms, *(float(ns) / NS_PER_MS for ns in np.percentile(times_ns, [10, 90])))


def plain_window(
    journal: Journal, options: RecordingOptions, is_short: Callable[[], bool]
) -> Generator[Progress, None, tuple[PlainWindow, HostProfile]]:
    """Wait at every step boundary until the window is long enough; return the step, and the stacks of regular steps.

    The device is synchronized at both ends only. The mean is the larger of two times, since both may be too short: the
    host's time between the ends without pinprof's own, in which the GPU may have worked; and the GPU's time in its
    current stream, which may have had only a part of the work. With a GPU the window goes on until the mean is precise
    enough: launches stay slower after a profiler, by a third on an H100 (torch 2.11), so later steps cannot help. If
    the program `is_short` of further steps, the window ends after a few.
    """
    clock, first = journal.renew_clock(), len(journal)
    clock.synchronize()
    start_ns = clock.now_ns()
    with journal.timing_gpu(), sampling() as sampler:
        for progress in _plain_steps(journal, options, first, start_ns, is_short):
            yield progress
            sampler.step()
        ended_ns = clock.now_ns()
        clock.synchronize()
        drained_ns = clock.now_ns() - ended_ns
    times_ns = journal.times_ns(first)
    mean_ms = max((journal.ns_in(TIMING_WINDOW) + drained_ns) / len(times_ns), float(times_ns.mean())) / NS_PER_MS
    regular = set(regular_since(journal.log(), first).tolist())
    return PlainWindow.of(times_ns, mean_ms), sampler.profile(regular)


def _plain_steps(
    journal: Journal, options: RecordingOptions, first: int, start_ns: int, is_short: Callable[[], bool]
) -> Generator[Progress, None, None]:
    clock = journal.clock
    while not options.is_plain_over(len(journal) - first, (clock.now_ns() - start_ns) / NS_PER_S):
        if len(journal) - first >= MIN_TIMED_STEPS and is_short():
            return
        yield Progress(TIMING_WINDOW, len(journal) - first + 1, options.plain_steps)
    if clock.is_of_gpu:
        yield from until_precise(journal, options, lambda seconds: seconds >= GPU_TIMING_S or is_short())


def until_precise(
    journal: Journal, options: RecordingOptions, is_over: Callable[[float], bool] = lambda _: False
) -> Generator[Progress, None, None]:
    """Wait until the steps of all plain windows make the regular step precise, or `is_over` says of their seconds."""
    seconds, start_ns, first = journal.ns_in(TIMING_WINDOW) / NS_PER_S, journal.clock.now_ns(), len(journal)
    before, next_check = journal.steps_in(TIMING_WINDOW), 0
    while options.plain_precision < 1 and not journal.is_full:
        steps = len(journal) - first
        now = seconds + (journal.clock.now_ns() - start_ns) / NS_PER_S
        if now >= options.plain_max_seconds or is_over(now):
            return
        if steps >= next_check:
            figure = timed_regular_step(journal.log())
            if figure is not None and figure.precision <= options.plain_precision:
                return
            next_check = max(ceil(PRECISION_CHECK_FACTOR * steps), steps + MIN_TIMED_STEPS)
        yield Progress(TIMING_WINDOW, before + steps + 1, options.plain_steps)


MAX_STEPS_UNTIL_REGULAR, MAX_S_UNTIL_REGULAR = 100, 8.0
"""The longest wait for regular steps. If irregular work is recorded, it is recognized and left out of the figures."""


def await_regular(journal: Journal, steps: int) -> Generator[Progress, None, None]:
    """Wait until the next `steps` steps are expected to have no irregular work; else the journal says why not."""
    start_s, waited = HOST_TIME.monotonic(), 0
    while (coming := next_irregular_work(journal.log())) is not None and coming.ahead < steps:
        work = IRREGULAR_WORK.get(coming.reason, "something unknown")
        comes_back = f"{work} comes back every {coming.every} steps"
        if coming.every <= steps:
            journal.unavoidable = f"{comes_back}, and the recording needs {steps}"
            return
        if waited == MAX_STEPS_UNTIL_REGULAR or HOST_TIME.monotonic() - start_s >= MAX_S_UNTIL_REGULAR:
            journal.unavoidable = f"{comes_back}, and waiting for steps without it took too long"
            return
        waited += 1
        yield Progress("regular", waited, MAX_STEPS_UNTIL_REGULAR)


def await_end_of_profile(is_profiled: Callable[[], bool]) -> Generator[Progress, None, None]:
    """Wait at every step boundary until the program does not profile itself: another profiler would end that one."""
    start_s, waited = HOST_TIME.monotonic(), 0
    while is_profiled() and waited < MAX_STEPS_UNTIL_REGULAR and HOST_TIME.monotonic() - start_s < MAX_S_UNTIL_REGULAR:
        waited += 1
        yield Progress("regular", waited, MAX_STEPS_UNTIL_REGULAR)
