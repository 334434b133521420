import numpy as np

from pinprof.ground.units import counted, duration, how_many
from pinprof.prediction.edits import NotedPauses
from pinprof.rules.launching import collecting
from pinprof.rules.rule import AllEvidence, Details, Edits, Evidence, Profile, Rule
from pinprof.rules.sums import at, idle_within, in_complete_steps
from pinprof.trace.callers import places_of, users_of
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import Collections

MIN_COLLECTING_SHARE = 0.03
"""Collections that take a smaller share of the step are not worth a finding: the young generations of a program that
makes few objects take less than 0.5 %."""

MIN_COLLECTIONS = 2
"""A generation that is collected less often in the timed steps shows no rate: the next time may be far away."""


def _collecting(details: Details, profile: Profile) -> AllEvidence:
    if evidence := _called(details, profile) or _noted(details, profile):
        yield evidence


def _called(details: Details, profile: Profile) -> Evidence | None:
    trace, step, functions = details.trace, profile.step_ns, details.trace.functions
    rows = np.flatnonzero(collecting(trace))
    rows = rows[in_complete_steps(trace, functions.start_ns[rows])]
    time = float(functions.duration_ns[rows].sum()) / profile.steps.divisor
    if not step or time < MIN_COLLECTING_SHARE * step:
        return None
    columns = functions.thread[rows], functions.start_ns[rows], functions.end_ns[rows]
    (line, *_), _ = places_of(trace, users_of(trace, rows.astype(np.int32)), details.sources)
    place = line.place if line else Place()
    return Evidence(
        idle_within(details, profile, *columns[1:]),
        f"`gc.collect()` takes {duration(time)} {profile.steps.per}, as traced, called "
        f"{how_many(len(rows) / profile.steps.divisor)} {profile.steps.per}{at(place)}{_ranks(details)}",
        *place,
        edits=Edits(removed_times=frozenset(zip(*(column.tolist() for column in columns), strict=True))),
        fix=FIX_OF_CALLS,
    )


def _noted(details: Details, profile: Profile) -> Evidence | None:
    run, step = details.trace.run, profile.step_ns
    if run is None or not step or not run.stops.steps:
        return None
    stops = run.stops
    recurring = [runs for runs in stops.collections if runs.count >= MIN_COLLECTIONS or stops.asked_at]
    per_step = sum(runs.ns for runs in recurring) / stops.steps
    if per_step < MIN_COLLECTING_SHARE * step:
        return None
    most_first = sorted(recurring, key=lambda runs: -runs.ns)
    outside = any(_outlasts(runs, step) for runs in recurring)  # of the regular step, which has none to save
    pauses = () if outside else (_stop(runs, stops.steps) for runs in recurring if runs.ns)
    long = sum(runs.ns for runs in recurring if _outlasts(runs, step)) / stops.steps
    short, busy = per_step - long, profile.steps.busy_ns
    words = [
        _words(runs, stops.steps) for runs in most_first if runs.ns >= MIN_COLLECTING_SHARE * per_step * stops.steps
    ]
    caller = stops.asked_at or Place()
    by_hand = f"; the program asks for it{at(caller)}" if stops.asked_at else ""
    return Evidence(
        # no queue of work on the GPU lasts through those that outlast a step
        long + (short if busy is None else min(short, max(step - busy, 0.0))),
        f"Python's garbage collector takes {duration(per_step)} per step on average, without the profiler: "
        f"{', '.join(words)}{by_hand}{_ranks(details)}",
        *caller,
        edits=Edits(stops=frozenset(pauses)),
        is_irregular=outside,
        seen=sum(runs.count for runs in recurring if _outlasts(runs, step)),
        fix=FIX_OF_CALLS if stops.asked_at else "",
    )


def _outlasts(runs: Collections, step_ns: float) -> bool:
    return runs.ns >= step_ns * max(runs.count, 1)


def _stop(runs: Collections, steps: int) -> NotedPauses:
    """Return a generation's collections as pauses; of several in a step all together."""
    per_step = min(runs.count / steps, 1.0)
    return NotedPauses(runs.ns / (per_step * steps), per_step)


def _ranks(details: Details) -> str:
    ranks = details.trace.info.world_size or 1
    return f"; {ranks} ranks wait for the one that collects, each at another time" if ranks > 1 else ""


def _words(runs: Collections, steps: int) -> str:
    times, each = f"{counted(runs.count, 'time')} in {counted(steps, 'step')}", duration(runs.ns / runs.count)
    return f"generation {runs.generation} {times}, {each} each, at most {duration(runs.longest_ns)}"


FIX_OF_CALLS = (
    "Call `gc.collect()` less often: every N steps, on all ranks in the same step. `gc.freeze()` after the warm-up "
    "makes each call shorter."
)

RULE = Rule(
    id="PIN608",
    title="Python's garbage collector stops the host",
    short="collect less often",
    figures=("step",),
    answers=("python", "host"),
    numbers="equal",
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
    search=_collecting,
)
