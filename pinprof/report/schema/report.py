"""`pinprof report --json`: fields."""

from pinprof.analyses.idle import IDLE_CAUSES
from pinprof.analyses.overlap import REASONS
from pinprof.measurement.trust import CHECKS, FIGURES
from pinprof.measurement.trust.doubt import LEVELS
from pinprof.report.schema.field import (
    BYTES,
    GBPS,
    Record,
    always,
    by_name,
    count,
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
from pinprof.report.schema.findings import FINDING, JOINT
from pinprof.report.schema.hta import HTA
from pinprof.report.schema.job import RANKS
from pinprof.report.schema.places import DEVICE, MEMORIES
from pinprof.report.schema.spent import HOST_MEMORY, HOST_PROFILE, KERNEL, KERNEL_SUMS, LAUNCHES, OP, OP_SUMS
from pinprof.report.schema.step import STEPS
from pinprof.report.schema.waits import LOADER, PAUSE, SYNCS
from pinprof.report.trace.json import KNOWN_COUNTS
from pinprof.trace.tables import DIRECTIONS
from pinprof.verdict import CAUSES
from pinprof.version import REPORT_SCHEMA

EVENTS = Record(
    "events",
    "What the trace holds",
    {
        **{name: count(f"events of category `{name}`") for name in KNOWN_COUNTS},
        "skipped": count("events that could not be used"),
        "skipped_reasons": by_name("the same by reason", count("")),
        "other": by_name("events of other categories", count("")),
    },
)
MISSING = Record(
    "missing",
    "What the recording lacks or has wrong",
    {
        "check": one_of("which check found it", tuple(CHECKS)),
        "level": one_of("figures are withheld, are to be read with care, or something was not recorded", LEVELS),
        "what": words("what it is"),
        "effect": words("what follows"),
        "remedy": words("how to record it"),
        "invalidates": many("the kinds of figures that are null because of it", one_of("", tuple(FIGURES))),
    },
)
COSTS = {
    "ms": maybe(ms("what a replay without the cause saves, as far as `step_parts` show it; of `gpu`, its kernels")),
    "fraction": maybe(share("the same of the step")),
    "range_ms": maybe(span("where it lies")),
}
VERDICT = Record(
    "verdict",
    "Why the step takes so long: the one cause that costs it most",
    {
        "cause": maybe(one_of("the cause; null where the trace cannot tell", CAUSES)),
        **COSTS,
        "headline": maybe(words("the verdict; where `cause` is null, between which causes the trace cannot tell")),
        "evidence": many("what shows it", words("")),
        "do": maybe(words("what to do about it; where `cause` is null, how to find it out")),
        "finding": maybe(count("index into `findings` of what to do about it")),
    },
)
COST = Record("cost", "What a cause costs the step; causes overlap", {"cause": one_of("the cause", CAUSES), **COSTS})
PER_STEP = Record(
    "per_step",
    "Sums over the complete steps, divided by their number: what `pinprof check` limits",
    {
        "hidden_syncs": maybe(number("waits that the code did not ask for")),
        "hidden_stall_ms": maybe(ms("time in these")),
        "exposed_ms": maybe(ms("copy time with no kernel beside it")),
        "pageable_bytes": maybe(number("copied from or to pageable memory", BYTES)),
        "stall_ms": maybe(ms("time in all waits")),
        "drain_ms": maybe(ms("the part in which earlier work was still to be done")),
        "bubble_ms": maybe(ms("GPU idle time that waits leave behind")),
    },
)
PART = Record(
    "step_part",
    "How a mean step divides on a GPU; all but `device` and `step_ms` add up to `step_ms`",
    {
        "device": count("the GPU"),
        "step_ms": maybe(ms("the step, or the work where that alone is longer")),
        "compute_ms": maybe(ms("kernels, and no copy")),
        "overlapped_ms": maybe(ms("kernels and copies")),
        "exposed_ms": maybe(ms("copies, and no kernel")),
        "memset_ms": maybe(ms("only memsets")),
        "idle_ms": maybe(ms("nothing")),
    },
)
GPU = Record(
    "gpu",
    "A GPU from its first work to its last, as traced",
    {
        "device": count("the GPU"),
        "busy_ms": maybe(ms("time with kernels, copies or memsets")),
        "kernel_ms": maybe(ms("time with kernels")),
        "memcpy_ms": maybe(ms("time with copies")),
        "idle_ms": maybe(ms("time with none")),
        "span_ms": maybe(ms("busy and idle")),
    },
)
COPIES = Record(
    "copies",
    "The copies of one direction and host memory in the whole recording",
    {
        "direction": one_of("from where to where", DIRECTIONS),
        "host_memory": maybe(one_of("kind of the host's memory; null without a host side", MEMORIES)),
        "count": maybe(count("how many")),
        "bytes": maybe(count("how much", BYTES)),
        "unsized": count("copies whose size is not recorded"),
        "time_ms": maybe(ms("how long they run")),
        "overlapped_ms": maybe(ms("the part beside kernels of the same GPU")),
        "exposed_ms": maybe(ms("the rest")),
        "bandwidth_gbps": maybe(number("bytes by time", GBPS)),
        "host_blocked_ms": maybe(ms("how long the host stood in calls that made or awaited them")),
    },
)
EXPOSED = Record(
    "exposed",
    "The exposed copies of one reason",
    {
        "reason": maybe(one_of("why no kernel runs beside them", REASONS)),
        "count": maybe(count("how many")),
        "exposed_ms": maybe(ms("how long")),
    },
)
OVERLAP = Record(
    "overlap",
    "How much of the copy time kernels hide, in the whole recording",
    {
        "copy_ms": maybe(ms("time with copies")),
        "overlapped_ms": maybe(ms("the part beside kernels")),
        "exposed_ms": maybe(ms("the rest")),
        "fraction": maybe(share("overlapped; null without copies")),
        "reasons": many("why copies are exposed", EXPOSED),
    },
)
IDLE = Record(
    "idle",
    "Idle time of a GPU by cause, as traced",
    {
        "device": count("the GPU"),
        "cause": maybe(one_of("why it idles; null where causes are withheld", IDLE_CAUSES)),
        "time_ms": maybe(ms("how long")),
    },
)
TRACE = Record(
    "trace",
    "One trace; of the ranks of a job each has one",
    {
        "path": text("where it was read"),
        "rank": maybe(count("the rank")),
        "world_size": maybe(count("how many ranks the job has")),
        "torch_version": maybe(text("the torch that recorded it")),
        "devices": many("the GPUs", DEVICE),
        "span_ms": maybe(ms("from the first event to the end of the last")),
        "events": one("how many events of each kind it holds", EVENTS),
        "missing": many("what it lacks, the gravest first", MISSING),
        "verdict": one("why the step is as long as it is", VERDICT),
        "verdicts": many("what each cause costs, the largest first", COST),
        "steps": one("the step", STEPS),
        "per_step": maybe(one("sums per step; null without complete steps", PER_STEP)),
        "step_parts": many("how the step divides, by GPU", PART),
        "gpu": many("busy and idle time, by GPU", GPU),
        "copies": many("copies, by direction and host memory", COPIES),
        "overlap": one("how much copy time is hidden", OVERLAP),
        "syncs": one("where the host waits", SYNCS),
        "idle": many("idle time by cause", IDLE),
        "pause": maybe(one("the host's longest pause", PAUSE)),
        "launches": maybe(one("how kernels are launched", LAUNCHES)),
        "loader": one("the DataLoader", LOADER),
        "kernels": many("kernels by name, the costliest 200", KERNEL),
        "kernel_sums": maybe(one("all kernels", KERNEL_SUMS)),
        "ops": many("ops by name, the costliest 200", OP),
        "op_sums": maybe(one("all ops", OP_SUMS)),
        "host_profile": maybe(one("the sampled host; null in traces of others", HOST_PROFILE)),
        "host_memory": maybe(one("pinned memory; null in traces of others", HOST_MEMORY)),
        "findings": many("what to do, the largest saving first", FINDING),
        "joint": maybe(one("all fixes together", JOINT)),
        "hta": maybe(one("HTA's figures; null without `--hta`", HTA)),
    },
)
MACHINE = Record("machine", "The machine of `--machine`", {"gpu": text("its GPU")})
REPORT = Record(
    "pinprof.report",
    "What `pinprof report --json` writes",
    {
        "schema": always("name and number of this schema", REPORT_SCHEMA),
        "pinprof_version": text("what wrote it"),
        "machine": optional(one("whose bench the findings rest on; only with `--machine`", MACHINE)),
        "traces": many("the traces", TRACE),
        "ranks": maybe(one("the ranks of a job; null for one trace", RANKS)),
    },
)
