"""`pinprof compare --json`: fields."""

from pinprof.comparison.changes import COPY_FIGURES
from pinprof.report.comparison.json import SCHEMA
from pinprof.report.schema.field import (
    Fields,
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
from pinprof.report.schema.places import (
    BOUNDS,
    DEVICE,
    LIBRARY,
    MEMORIES,
    PLACE,
    SEVERITIES,
    SOURCES,
    THREADS,
    VERDICTS,
)
from pinprof.report.schema.waits import CAUSE
from pinprof.trace.tables import DIRECTIONS

FIGURE_FIELDS: Fields = {
    "before": maybe(number("the figure before")),
    "after": maybe(number("the figure after")),
    "difference": maybe(number("after less before")),
    "fraction": maybe(share("the difference of the figure before")),
    "noise": maybe(number("how much the figures may differ by chance")),
    "within_noise": maybe(flag("whether the ranges have something in common")),
    "range_before": maybe(span("where the figure before lies", "")),
    "range_after": maybe(span("where the figure after lies", "")),
    "reason": maybe(words("why it is not compared")),
}
FIGURE = Record("figure", "Two values of a figure; its name tells the unit", FIGURE_FIELDS)
STEP_FIGURE = Record(
    "step_figure",
    "A figure of the step or of a GPU",
    {"name": text("which figure; its end tells the unit"), "device": maybe(count("the GPU")), **FIGURE_FIELDS},
)
SIDE = Record(
    "side",
    "One of the two traces",
    {
        "path": text("where it was read"),
        "rank": maybe(count("the rank")),
        "torch_version": maybe(text("the torch that recorded it")),
        "devices": many("the GPUs", DEVICE),
        "steps": count("complete steps"),
        "step_source": one_of("how the step is known", SOURCES),
        "bound": maybe(one_of("what sets the pace", BOUNDS)),
    },
)
STATUSES = ("gone", "new", "moved", "changed", "same")
WAIT_SITE = Record(
    "wait_site",
    "A place of a wait",
    {
        **PLACE,
        "library": maybe(one("where it waits in a library", LIBRARY)),
        "call": text("the CUDA call that blocked"),
        "thread": one_of("the host thread", THREADS),
        "verdict": one_of("whether the code asked for it, and whether it costs anything", VERDICTS),
    },
)
WAIT = Record(
    "wait_change",
    "A wait before and after",
    {
        "change": one_of("how it changed", STATUSES),
        "cause": CAUSE,
        "op": maybe(text("the op around it")),
        "before": many("its places before", WAIT_SITE),
        "after": many("its places after", WAIT_SITE),
        "per_step": one("how many", FIGURE),
        "stall_ms": one("time in them per step", FIGURE),
        "bubble_ms": one("GPU idle time behind them per step", FIGURE),
    },
)
COPY = Record(
    "copy_change",
    "The copies of one direction and host memory, before and after",
    {
        "change": one_of("how they changed", STATUSES),
        "direction": one_of("from where to where", DIRECTIONS),
        "host_memory": maybe(one_of("kind of the host's memory", MEMORIES)),
        **{name: one("per step", FIGURE) for name, _ in COPY_FIGURES},
    },
)
REPINNED = Record(
    "repinned",
    "Copies whose host memory is of another kind after, per step",
    {
        "direction": one_of("from where to where", DIRECTIONS),
        "before": one_of("kind before", MEMORIES),
        "after": one_of("kind after", MEMORIES),
        "count": number("how many"),
        "bytes": maybe(number("how much", "bytes")),
    },
)
SAVED = maybe(ms("what the fix saves per step"))
FOUND_SITE = Record("found_site", "A place of a finding", {**PLACE, "saving_ms": SAVED})
FOUND = Record(
    "found",
    "A finding in one of the traces",
    {
        "severity": one_of("how grave it is", SEVERITIES),
        **PLACE,
        "evidence": words("what was seen"),
        "saving_ms": SAVED,
        "range_ms": maybe(span("where that lies")),
        "sites": many("its places", FOUND_SITE),
    },
)
FINDING = Record(
    "finding_change",
    "A finding before and after",
    {
        "change": one_of("how it changed", STATUSES),
        "rule": text("the rule, for `pinprof explain`"),
        "title": words("the rule in a few words"),
        "before": many("as found before", FOUND),
        "after": many("as found after", FOUND),
        "saving_ms": one("what its fix saves per step", FIGURE),
    },
)
VERDICT_OF_STEP = one_of("how the step changed", ("faster", "slower", "same", "unsure", "unknown"))
WHY_NOT = "why they are not compared; null where they are"
COMPARE = Record(
    "pinprof.compare",
    "What `pinprof compare --json` writes; differences are after less before",
    {
        "schema": always("name and number of this schema", SCHEMA),
        "pinprof_version": text("what wrote it"),
        "before": one("the trace before", SIDE),
        "after": one("the trace after", SIDE),
        "verdict": VERDICT_OF_STEP,
        "sentence": words("the verdict in a sentence"),
        "same_program": maybe(flag("whether the traces seem to be of one program")),
        "kernels_alike": maybe(share("kernels per step that both have, by name")),
        "figures": many("the step first, then its parts", STEP_FIGURE),
        "waits": many("waits, each matched with itself", WAIT),
        "waits_reason": maybe(words(WHY_NOT)),
        "copies": many("copies by direction and host memory", COPY),
        "copies_reason": maybe(words(WHY_NOT)),
        "repinned": many("copies of another memory after", REPINNED),
        "findings": many("findings, each matched with itself", FINDING),
        "findings_reason": maybe(words(WHY_NOT)),
    },
)
