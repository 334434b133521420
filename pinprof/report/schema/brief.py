"""`--json --brief` of `pinprof report` and `pinprof compare`: fields."""

from pinprof.measurement.trust import FIGURES
from pinprof.report.comparison.brief_json import SCHEMA as COMPARE_SCHEMA
from pinprof.report.schema.comparison import STATUSES, VERDICT_OF_STEP
from pinprof.report.schema.field import (
    Record,
    always,
    count,
    flag,
    many,
    maybe,
    ms,
    number,
    one,
    one_of,
    share,
    span,
    text,
    words,
)
from pinprof.report.schema.findings import JOINT, SAVED
from pinprof.report.schema.fix import NUMBERS
from pinprof.report.schema.places import BOUNDS, MEMORIES, PLACE, SEVERITIES, SOURCES
from pinprof.report.schema.report import COSTS
from pinprof.report.schema.waits import CAUSE
from pinprof.trace.tables import DIRECTIONS
from pinprof.verdict import CAUSES
from pinprof.version import BRIEF_SCHEMA

ID = text("its id: a JSON Pointer into the document without --brief")
EVIDENCE = many("ids of the evidence", ID)
STEP = Record(
    "brief_step",
    "The step without the profiler",
    {
        "step_ms": maybe(ms("how long it is; null where that is withheld")),
        "step_source": one_of("how that is known", SOURCES),
        "range_ms": maybe(span("where it lies")),
        "bound": maybe(one_of("what sets the pace", BOUNDS)),
        "count": count("complete steps in the recording"),
        "why_null": maybe(words("why `step_ms` is null; null where it is not")),
    },
)
VERDICT = Record(
    "brief_verdict",
    "Why the step takes so long",
    {
        "sentence": words("the step and why it takes so long"),
        "cause": maybe(one_of("the cause that costs most; null where the trace cannot tell", CAUSES)),
        **COSTS,
        "do": maybe(words("what to do about it; where `cause` is null, how to find it out")),
        "finding": maybe(text("the id of the finding that this is about")),
        "evidence": EVIDENCE,
    },
)
FINDING = Record(
    "brief_finding",
    "What to change",
    {
        "id": ID,
        "rule": text("the rule, for `pinprof explain`"),
        "title": words("the rule in a few words"),
        "severity": one_of("by the share of the step that the fix saves; `suspect` for hazards", SEVERITIES),
        **PLACE,
        "code": maybe(text("the line; null where it is not at hand as it ran")),
        "places": count("places of the finding; the one here costs most"),
        "says": words("what the fix saves alone"),
        **SAVED,
        "at_most_ms": maybe(ms("what the fix saves at most, where no replay tells what it saves")),
        "numbers": maybe(
            one_of("whether the fix keeps the numbers, made as it says; null where that is open", NUMBERS)
        ),
        "do": words("what to do, in a few words"),
        "evidence": EVIDENCE,
    },
)
LINE = Record(
    "brief_line",
    "A line that takes the host's time, in a recording without work of a GPU",
    {
        "id": ID,
        **PLACE,
        "code": maybe(text("the line; null where it is not at hand as it ran")),
        "share": share("of the step"),
        "per_step_ms": maybe(ms("the same share of the measured step; null where it was not measured")),
        "spent": words("whose code runs there"),
        "do": maybe(words("what makes it shorter, where that is known")),
    },
)
UNTOLD = Record(
    "brief_untold",
    "What the trace cannot tell",
    {
        "id": ID,
        "what": words("what it lacks or has wrong"),
        "cannot": words("what follows"),
        "remedy": words("how to record it"),
        "withholds": many("the kinds of figures that are null because of it", one_of("", tuple(FIGURES))),
    },
)
NEXT = Record("brief_next", "A command to go on with", {"command": text("the command"), "why": words("what it gives")})
TRACE = Record(
    "brief_trace",
    "One trace; of a job that of the rank to look at",
    {
        "path": text("where it was read"),
        "rank": maybe(count("the rank")),
        "gpus": many("names of the GPUs", text("")),
        "step": one("the step", STEP),
        "verdict": one("why it is as long as it is", VERDICT),
        "findings": many("what to change, in the order in which to look at it", FINDING),
        "more_findings": count("findings that have no room here"),
        "joint": maybe(one("all fixes together", JOINT)),
        "lines": many("the lines that take the host's time; none where a GPU worked", LINE),
        "cannot_tell": many("what the trace cannot tell, the gravest first", UNTOLD),
        "more_cannot_tell": count("further ones that have no room here"),
        "next": many("commands to go on with", NEXT),
    },
)
RANK = Record(
    "brief_rank",
    "A rank",
    {
        "rank": count("its number"),
        "step_ms": maybe(ms("its step without the profiler")),
        "alone_ms": maybe(ms("the step that it would have if it waited for no other rank")),
    },
)
RANKS = Record(
    "brief_ranks",
    "The ranks of a job side by side",
    {
        "world_size": maybe(count("how many ranks the job has")),
        "sentence": words("who holds up the others, by how much and why"),
        "slowest_rank": maybe(count("the rank that holds up the others")),
        "skew_ms": maybe(ms("how much longer than the median of the others it needs alone")),
        "shown_rank": maybe(count("the rank in `traces`")),
        "rows": many("the ranks, those that need longest alone first", RANK),
        "more_ranks": count("ranks that have no room here"),
        "choice": many("why these traces were taken, and what is absent", words("")),
        "evidence": EVIDENCE,
    },
)
REPORT_BRIEF = Record(
    "pinprof.report-brief",
    "What `pinprof report --json --brief` writes: at most 6 kB",
    {
        "schema": always("name and number of this schema", BRIEF_SCHEMA),
        "pinprof_version": text("what wrote it"),
        "traces": many("the traces", TRACE),
        "more_traces": count("traces that have no room here: of a job, the other ranks"),
        "ranks": maybe(one("the ranks of a job; null for one trace", RANKS)),
    },
)
VALUES = Record(
    "brief_figure",
    "Two values of a figure",
    {
        "before": maybe(number("before")),
        "after": maybe(number("after")),
        "difference": maybe(number("after less before")),
        "within_noise": maybe(flag("whether the difference may be chance")),
        "reason": maybe(words("why it is not compared")),
    },
)
CHANGE = {"id": ID, "change": one_of("how it changed", STATUSES)}
COMPARE_BRIEF = Record(
    "pinprof.compare-brief",
    "What `pinprof compare --json --brief` writes: at most 6 kB, and only what changed beyond noise",
    {
        "schema": always("name and number of this schema", COMPARE_SCHEMA),
        "pinprof_version": text("what wrote it"),
        **{
            side: one(
                f"the trace {side}",
                Record(
                    "brief_side",
                    "One of the two traces",
                    {
                        "path": text("where it was read"),
                        "step_source": one_of("how the step is known", SOURCES),
                        "steps": count("complete steps"),
                        "bound": maybe(one_of("what sets the pace", BOUNDS)),
                    },
                ),
            )
            for side in ("before", "after")
        },
        "verdict": VERDICT_OF_STEP,
        "sentence": words("the verdict in a sentence"),
        "same_program": maybe(flag("whether the traces seem to be of one program")),
        "figures": many(
            "the step, then its parts",
            Record(
                "brief_step_figure",
                "A figure of the step or of a GPU",
                {"id": ID, "name": text("which"), "device": maybe(count("the GPU")), **VALUES.fields},
            ),
        ),
        "waits": many(
            "waits",
            Record(
                "brief_wait",
                "A wait before and after",
                {**CHANGE, "cause": CAUSE, **PLACE, "stall_ms": one("time in it per step", VALUES)},
            ),
        ),
        "copies": many(
            "copies by direction and host memory",
            Record(
                "brief_copies",
                "Copies before and after",
                {
                    **CHANGE,
                    "direction": one_of("from where to where", DIRECTIONS),
                    "host_memory": maybe(one_of("kind of the host's memory", MEMORIES)),
                    "time_ms": one("per step", VALUES),
                },
            ),
        ),
        "findings": many(
            "findings",
            Record(
                "brief_finding_change",
                "A finding before and after",
                {
                    **CHANGE,
                    "rule": text("the rule, for `pinprof explain`"),
                    "title": words("the rule in a few words"),
                    **PLACE,
                    "saving_ms": one("what its fix saves per step", VALUES),
                },
            ),
        ),
        "more_changes": count("changes that have no room here"),
        "cannot_tell": many("what is not compared, and what the traces lack", words("")),
    },
)
