from collections.abc import Iterator

from pinprof.details import Details
from pinprof.measurement.profile import Profile
from pinprof.rules.rule import Evidence, Rule
from pinprof.rules.sums import at
from pinprof.trace.lines import Place
from pinprof.trace.run_log import Collections, HostStops
from pinprof.units import counted, duration

WORTH = 0.03
"""Collections that take a smaller share of the step are not worth a finding: the young generations of a program that
makes few objects take less than 0.5 %."""


def _collecting(details: Details, profile: Profile) -> Iterator[Evidence]:
    """Look for steps in which Python's garbage collector takes long, as `pinprof run` noted it without a profiler."""
    run, step = details.trace.run, profile.step_ns
    if run is None or not step or not run.stops.steps:
        return
    stops = run.stops
    per_step = sum(of.ns for of in stops.collections) / stops.steps
    if per_step < WORTH * step:
        return
    most_first = sorted(stops.collections, key=lambda of: -of.ns)
    words = [_words(of, stops.steps) for of in most_first if of.ns >= WORTH * per_step * stops.steps]
    asked = stops.asked_at or Place()
    by_hand = f"; the program asks for it{at(asked)}" if stops.asked_at else ""
    yield Evidence(
        _cost_ns(stops, step, profile.steps.busy_ns),
        f"Python's garbage collector takes {duration(per_step)} per step on average, without the profiler: "
        f"{', '.join(words)}{by_hand}",
        *asked,
        fix=BY_HAND if stops.asked_at else "",
    )


def _cost_ns(stops: HostStops, step_ns: float, busy_ns: float | None) -> float:
    """Return what collections cost per step: no queue of work on the GPU lasts through those that outlast a step."""
    long = sum(of.ns for of in stops.collections if of.ns >= step_ns * of.count) / stops.steps
    short = sum(of.ns for of in stops.collections) / stops.steps - long
    return long + (short if busy_ns is None else min(short, max(step_ns - busy_ns, 0.0)))


def _words(of: Collections, steps: int) -> str:
    """Return how often a generation is collected, and for how long."""
    longest = f", at most {duration(of.longest_ns)}" if of.count > 1 else ""
    return (
        f"generation {of.generation} {counted(of.count, 'time')} in {counted(steps, 'step')}, "
        f"{duration(of.ns / of.count)} each{longest}"
    )


BY_HAND = (
    "Call `gc.collect()` less often: every N steps, on all ranks in the same step. `gc.freeze()` after the warm-up "
    "makes each call shorter."
)

RULE = Rule(
    id="PIN608",
    title="Python's garbage collector stops the host",
    rests_on=("step",),
    answers=("python", "host"),
    numbers="equal",
    looks_at="Collections of Python's garbage collector in the steps without a profiler, as `pinprof run` noted them.",
    why="While the collector looks at all objects, no thread of the process runs Python, so nothing is launched. On "
    "several ranks each collects at another time, and all wait for the one that does.",
    fix="After the warm-up call `gc.freeze()`, so that what lives by then is not looked at again. Then collect every N "
    "steps, on all ranks in the same step, or raise the threshold (`gc.set_threshold(50_000, 20, 100)`). Make fewer "
    "objects that refer to each other in a circle.",
    before="for batch in batches:\n    train(batch)  # Python collects on each rank by itself",
    code="import gc\n\n"
    "gc.collect()\n"
    "gc.freeze()  # after the warm-up\n"
    "gc.disable()\n"
    "for number, batch in enumerate(batches):\n"
    "    train(batch)\n"
    "    if number % 100 == 99:\n"
    "        gc.collect()  # on all ranks in the same step\n"
    "gc.enable()",
    safe_if="What is not reachable any more may live for N steps longer: memory suffices for it.",
    near_miss="import gc\n\ngc.collect()  # once, before the loop",
    look=_collecting,
)
