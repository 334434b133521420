"""Where the host waits: fields of sites and what sums them up."""

from pinprof.analyses.syncs import CAUSES
from pinprof.report.schema.field import Record, count, flag, many, maybe, ms, number, one, one_of, text
from pinprof.report.schema.places import LIBRARY, PLACE, THREADS, VERDICTS

CAUSE = one_of("what made the host wait", CAUSES)
GUARDS = (
    "directions of the copies of pinned memory in flight that it awaits: without it, their memory is used too early"
)
SITE = Record(
    "site",
    "The waits of one cause at one place, in the whole recording, as traced",
    {
        "cause": CAUSE,
        "op": maybe(text("the op of torch around the call")),
        "call": text("the CUDA call that blocked"),
        **PLACE,
        "library": maybe(one("where it waits in a library that your line calls", LIBRARY)),
        "path": many("the frames from your line to the library's function", text("")),
        "stack": many("all frames as FILE:LINE:FUNCTION, the innermost first", text("")),
        "thread": one_of("the host thread that waits", THREADS),
        "count": maybe(count("how many waits")),
        "per_step": maybe(number("waits per complete step")),
        "stall_ms": maybe(ms("time in the calls")),
        "drain_ms": maybe(ms("the part in which earlier work of the GPU was still to be done")),
        "own_ms": maybe(ms("the part in which the call's own copy ran")),
        "bubble_ms": maybe(ms("GPU idle time that the waits leave behind")),
        "verdict": one_of("whether the code asked for it, and whether it costs anything", VERDICTS),
        "group": maybe(count("waits of one group only move if one of them is removed")),
        "guards": many(GUARDS, text("")),
    },
)
GROUP = Record(
    "group",
    "Sites of which each wait moves to the next if one is removed alone",
    {
        "group": count("its number"),
        "sites": many("indices into `sites`", count("")),
        "stall_ms": maybe(ms("time in the calls")),
        "bubble_ms": maybe(ms("GPU idle time behind them")),
    },
)
SEEN = Record(
    "seen",
    "Waits at a place where no recorded wait is known to be, seen while `pinprof run` watched steps without a profiler",
    {
        **PLACE,
        "stack": many("all frames, the innermost first", text("")),
        "called": maybe(text("what the line called")),
        "thread": one_of("the host thread that waits", THREADS),
        "count": count("how many waits"),
        "steps": count("watched steps that have some"),
        "every": maybe(count("after how many steps they come back; null without such a rule")),
        "per_step": maybe(number("waits per watched step")),
    },
)
SYNCS = Record(
    "syncs",
    "Where the host waits for the GPU",
    {
        "count": maybe(count("waits in the recording; those of the profiler and those for room are left out")),
        "per_step": maybe(number("waits per complete step")),
        "stall_ms": maybe(ms("time in them")),
        "sites": many("by cause and place, the longest idle time of the GPU first", SITE),
        "groups": many("waits that only move if one is removed", GROUP),
        "watched_steps": maybe(count("steps that were watched without a profiler")),
        "seen_elsewhere": many("waits that only these show", SEEN),
    },
)
PAUSE = Record(
    "pause",
    "The longest time per step in which the host ran no op and no call, as traced",
    {
        "time_ms": ms("its usual length"),
        "after": text("the op or call before it; empty at the begin of the step"),
        "before": text("the op or call after it; empty at the end of the step"),
    },
)
LOADER = Record(
    "loader",
    "The DataLoader",
    {
        "waits": count("batches that the main thread asked for"),
        "wait_ms": maybe(ms("time until they were there")),
        "per_step_ms": maybe(ms("the same per complete step")),
        "pinned": maybe(flag("whether large copies to the GPU came from pinned memory; null where mixed or none")),
        "pin_thread": flag("whether a pin-memory thread is at work"),
        "pins": maybe(flag("whether the DataLoader has `pin_memory=True`; null where the trace does not tell")),
    },
)
