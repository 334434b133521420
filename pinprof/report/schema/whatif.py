"""`pinprof whatif --json` and `pinprof verify --json`: fields."""

from pinprof.report.schema.field import (
    BYTES,
    GBPS,
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
    optional,
    share,
    span,
    text,
    words,
)
from pinprof.report.schema.places import BOUNDS, LIBRARY, PLACE, SOURCES
from pinprof.report.schema.spent import BLOCKER
from pinprof.report.schema.waits import CAUSE, GUARDS
from pinprof.report.whatif.json import SCHEMA
from pinprof.report.whatif.verification import SCHEMA as VERIFY_SCHEMA
from pinprof.whatif.fixes import FIXES

RATES = many("[bytes, GB/s] of the copies that were measured, by size", many("", number("")))
PINNED_RATES = Record(
    "pinned_rates",
    "What pinned copies were measured at",
    {"gpu": text("the GPU of the bench"), "htod": RATES, "dtoh": RATES},
)
SCENARIO = Record(
    "scenario",
    "The changes that are asked for, as the options of `pinprof whatif`",
    {
        "drop_syncs": many("places at which the host no longer waits, or `all`", text("")),
        "pin": flag("copies are pinned"),
        "pinned_gbps": maybe(number("the rate of pinned copies, if given", GBPS)),
        "machine": maybe(one("the bench of `--machine`", PINNED_RATES)),
        "non_blocking": flag("copies do not block the host"),
        "overlap_copies": flag("copies to the GPU move one step ahead, onto a stream of their own"),
        "drop_allocs": flag("nothing is allocated or freed"),
        "cuda_graph": maybe(one_of("what CUDA graphs launch", ("step", "model", "optimizer"))),
        "fused_optimizer": flag("one launch makes the optimizer's step"),
        "host_speed": number("the host is so many times as fast"),
        "gpu_speed": number("the kernels are so many times as fast"),
    },
)
PREDICTION: Fields = {
    "baseline_step_ms": ms("the step before the change, without the profiler"),
    "baseline_source": one_of("how that is known", SOURCES),
    "predicted_step_ms": ms("the step after it"),
    "range_ms": span("where that lies"),
    "speedup": number("before by after"),
    "bound_before": maybe(one_of("what sets the pace before", BOUNDS)),
    "bound_after": maybe(one_of("what sets the pace after", BOUNDS)),
}
WAIT = Record(
    "wait",
    "What tells a wait from others",
    {
        "cause": CAUSE,
        "op": maybe(text("the op around it")),
        **PLACE,
        "library": maybe(one("where it waits in a library", LIBRARY)),
        "guards": many(GUARDS, text("")),
    },
)
CHANGE_FIELDS: Fields = {
    "option": one_of("the option of `pinprof whatif` that it is", FIXES),
    "per_step": number("waits, copies or calls that it changes"),
    "bytes_per_step": maybe(number("bytes of the copies that it changes", BYTES)),
    "sites": many("the waits that it is about", WAIT),
    "blockers": many("what cuts a CUDA graph into several", BLOCKER),
}
CHANGE = Record("change", "What one option changes in the program", CHANGE_FIELDS)
RANK_CHANGE = Record(
    "rank_change",
    "What one option changes in the program of a rank",
    {"rank": maybe(count("the rank")), **CHANGE_FIELDS},
)
USUAL = Record(
    "usual",
    "One of the usual changes",
    {
        "name": words("what it is"),
        "options": text("the options that ask for it"),
        **PREDICTION,
        "scenario": one("the same as fields", SCENARIO),
    },
)
WHATIF = Record(
    "pinprof.whatif",
    "What `pinprof whatif --json` writes",
    {
        "schema": always("name and number of this schema", SCHEMA),
        "path": text("the trace, or the first of several"),
        "paths": many("all traces that were replayed together", text("")),
        **PREDICTION,
        "scenario": one("the changes asked for", SCENARIO),
        "changes": many("what they change", RANK_CHANGE),
        "scenarios": optional(many("the usual changes, where none was asked for", USUAL)),
    },
)
VERIFY = Record(
    "pinprof.verify",
    "What `pinprof verify --json` writes",
    {
        "schema": always("name and number of this schema", VERIFY_SCHEMA),
        "before": text("the trace before the fix"),
        "after": text("the trace after it"),
        **PREDICTION,
        "measured_step_ms": ms("the step of the trace after the fix"),
        "measured_source": one_of("how that is known", SOURCES),
        "measured_range_ms": span("where it lies"),
        "error_fraction": share("how far the prediction lies above the measured step"),
        "predicted_saving_ms": ms("what the fix was predicted to save"),
        "measured_saving_ms": ms("what it saved"),
        "same_program": flag("whether the traces seem to be of one program"),
        "kernels_alike": share("kernels per step that both have, by name"),
        "changes": many("what the fix changed, as far as a replay can apply it", CHANGE),
        "new_waits": many("waits that only the trace after has", WAIT),
    },
)
