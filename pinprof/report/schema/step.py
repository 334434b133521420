"""The step and the course of the run: fields."""

from pinprof.report.schema.field import Record, count, many, maybe, ms, one, one_of, share, span, text
from pinprof.report.schema.places import BOUNDS, PLACE, SOURCES

IRREGULAR_REASONS = ("first", "compile", "evaluation", "checkpoint", "epoch_end", "logging", "other")
LEDGER = ("start_up", "regular", "input", *IRREGULAR_REASONS, "later", "pinprof", "end")

POINT = Record("point", "A place in the code", PLACE)
REGULAR = Record(
    "regular",
    "The regular step as `pinprof run` timed it without a profiler",
    {
        "count": count("steps timed"),
        "step_ms": ms("their mean"),
        "range_ms": maybe(span("where the mean lies with 95 % confidence; null for too few steps")),
        "confidence": share("how often such a range holds"),
        "input_fraction": share("the share of their time in a DataLoader"),
    },
)
IRREGULAR = Record(
    "irregular",
    "Steps that are unlike the others for one reason",
    {
        "reason": one_of("what makes them longer", IRREGULAR_REASONS),
        "count": count("how many"),
        "every": maybe(count("after how many steps they come back; null without such a rule")),
        "ms": ms("what it adds to them together"),
        "per_step_ms": ms("the same, divided by all steps"),
        "sites": many("where the program calls such work, as far as it was noticed", POINT),
    },
)
ENTRY = Record(
    "entry",
    "A row of the ledger; the rows add up to the run",
    {
        "what": one_of("where time went", LEDGER),
        "ms": ms("how much"),
        "fraction": share("of the run"),
        "steps": maybe(count("steps that have a part of it")),
    },
)
STEPS = Record(
    "steps",
    "The step: how long it is, and what bounds it",
    {
        "count": count("complete steps in the recording"),
        "source": one_of("what tells steps apart", ("profiler_step", "annotation", "repetition", "whole_trace")),
        "marker": text("the mark of a step in the trace"),
        "step_marker": maybe(text("what `pinprof run` took for the end of a step")),
        "host_ms": maybe(ms("median time between starts of steps on the host, as traced")),
        "device_ms": maybe(ms("mean time between ends of the steps' work on the GPU, as traced")),
        "traced_ms": maybe(ms("the larger of both")),
        "busy_ms": maybe(ms("time per step in which the busiest GPU works")),
        "busy_fraction": maybe(share("the same of `step_ms`, at most 1")),
        "step_ms": maybe(ms("the step without the profiler")),
        "step_source": one_of("how that is known", SOURCES),
        "range_ms": maybe(span("where `step_ms` lies")),
        "bound": maybe(one_of("what sets the pace", BOUNDS)),
        "regular": maybe(one("the regular step as it was timed; null in traces of others", REGULAR)),
        "irregular": many("steps unlike the others, by reason", IRREGULAR),
        "ledger": maybe(many("where the time of the whole run went; null in traces of others", ENTRY)),
    },
)
