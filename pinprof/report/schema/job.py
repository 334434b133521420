"""The ranks of a job: fields."""

from pinprof.report.schema.field import Record, count, many, maybe, ms, one, one_of, share, text, whole, words
from pinprof.report.schema.findings import COST, SITE_FIELDS
from pinprof.report.schema.places import FAMILIES, PLACE

BY_CAUSE = Record(
    "by_cause", "The time of one cause", {"cause": text("the cause"), "time_ms": ms("per step, as traced")}
)
ROW = Record(
    "rank_row",
    "A rank in figures, per step",
    {
        "rank": count("its number"),
        "path": text("its trace"),
        "step_ms": maybe(ms("its step without the profiler")),
        "alone_ms": maybe(ms("the step that it would have if it waited for no other rank")),
        "surely_ms": maybe(ms("the least that `alone_ms` can be, given what the profiler may have cost")),
        "traced_ms": maybe(ms("its step as traced; the times below are parts of it")),
        "gpu_busy_ms": maybe(ms("its GPU works")),
        "exposed_copies_ms": maybe(ms("copies with no kernel beside them")),
        "stall_ms": maybe(ms("its host stands in calls that wait")),
        "input_ms": ms("its host waits for the next batch"),
        "communication_ms": ms("kernels of collectives run"),
        "exposed_communication_ms": ms("the part with no other kernel beside them"),
        "waited_ms": ms("they wait for other ranks"),
        "last": share("collectives that it reached last"),
        "clock_ahead_ms": ms("how far its clock is ahead of the first rank's; not per step"),
        "steps_before": maybe(count("steps of the program before the recorded ones")),
        "overlapped_communication_ms": ms("kernels of collectives run beside others"),
        "pause_ms": maybe(ms("the longest time in which its host ran no op and no call")),
        "stalls": many("`stall_ms` by cause of waits", BY_CAUSE),
        "idle_ms": maybe(ms("its busiest GPU has no work")),
        "work_ms": maybe(ms("its busiest GPU works for the steps")),
        "idle": many("`idle_ms` by cause", BY_CAUSE),
    },
)
COLLECTIVE = Record(
    "collective",
    "A collective of the step, in order",
    {
        "name": text("what it does"),
        "group": text("its process group"),
        "last_rank": whole("the rank that was last most often"),
        "last": share("of the steps"),
        "own_ms": ms("how long it takes after all ranks have come"),
        "waited_ms": ms("the longest time that a rank waited"),
    },
)
RANKS_OF = many("the ranks that have it", count(""))
SHARED = Record(
    "shared_finding",
    "A finding of one or more ranks, as on the rank where it costs most",
    {
        "rule": text("the rule, for `pinprof explain`"),
        "family": one_of("what the rule is about", FAMILIES),
        "title": words("the rule in a few words"),
        **PLACE,
        "cost_ms": COST,
        "saving_ms": maybe(ms("what the fix saves per step, by replay")),
        "ranks": RANKS_OF,
        "sites": many(
            "where it holds", Record("shared_site", "A place on some ranks", {**SITE_FIELDS, "ranks": RANKS_OF})
        ),
    },
)
SPREAD = Record(
    "spread",
    "How the steps of the ranks lie",
    {"least_ms": ms("the shortest"), "median_ms": ms("the median"), "most_ms": ms("the longest")},
)
RANKS = Record(
    "ranks",
    "The ranks of a job side by side",
    {
        "world_size": maybe(count("how many ranks the job has")),
        "slowest_rank": maybe(count("the rank that holds up the others")),
        "skew_ms": maybe(ms("how much longer than the median of the others the slowest rank needs alone")),
        "clocks_within_ms": maybe(ms("how closely the clocks agree after alignment")),
        "reason": maybe(words("why the slowest rank needs longer")),
        "shown_rank": maybe(count("the rank to look at first")),
        "choice": many("why these traces were taken, and what is absent", words("")),
        "spread": maybe(one("how the steps lie", SPREAD)),
        "rows": many("the ranks", ROW),
        "collectives": many("those with the longest waits", COLLECTIVE),
        "findings": many("those on most ranks first", SHARED),
    },
)
