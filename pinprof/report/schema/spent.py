"""Kernels, ops, launches and the sampled host: fields."""

from pinprof.analyses.host import KINDS
from pinprof.report.schema.field import (
    BYTES,
    US,
    Fields,
    Record,
    by_name,
    count,
    flag,
    many,
    maybe,
    ms,
    number,
    one_of,
    share,
    text,
    words,
)
from pinprof.report.schema.places import PLACE
from pinprof.trace.phases import PHASES

TIMES: Fields = {
    "name": text("the name; cut in its middle beyond 500 characters"),
    "count": number("how many per step"),
    "ms": ms("their time per step"),
    "mean_us": number("the mean of one", US),
}
ORIGIN: Fields = {
    **PLACE,
    "places": count("how many places they come from; the one above has most of the time"),
    "module": maybe(text("the innermost module around most of the time")),
    "modules": count("how many modules they come from"),
}
LANE = Record("lane", "A stream", {"device": count("the GPU"), "stream": count("its stream")})
KERNEL = Record(
    "kernel",
    "The kernels of one name that the complete steps launched",
    {
        **TIMES,
        "share": maybe(share("of the time in which GPUs work for the steps")),
        "step_share": maybe(share("of the step without the profiler, on one stream")),
        "communication": flag("whether they are those of collectives, whose time is also that of waiting"),
        "streams": many("where they run, most of the time first", LANE),
        "op": maybe(text("the outermost op that launches most of their time")),
        **ORIGIN,
    },
)
OP = Record(
    "op",
    "The ops of one name on the threads that train, as traced, without the ops that they call",
    {
        **TIMES,
        "share": maybe(share("of the host's step")),
        "without_profiler_ms": maybe(
            ms("the same share of the step without the profiler; null if the GPU is the limit")
        ),
        "stall_ms": maybe(ms("the part in calls that can block, per step")),
        "kernels": maybe(number("kernels that they launch themselves, per step")),
        "kernel_ms": maybe(ms("how long these run")),
        **ORIGIN,
    },
)
SUMS: Fields = {
    "names": count("how many names there are"),
    "left_out": count("names beyond the costliest 200"),
    "left_out_ms": ms("their time per step"),
    "ms": ms("the time of all per step, each by itself"),
}
KERNEL_SUMS = Record(
    "kernel_sums", "All kernels together", {**SUMS, "busy_ms": ms("time per step in which GPUs work, copies with it")}
)
OP_SUMS = Record("op_sums", "All ops together", {**SUMS, "host_ms": ms("how long a step is on the host, as traced")})
LAUNCHED: Fields = {
    "launches": number("calls that launch kernels, per step"),
    "host_ms": ms("the host's time until each launch from the one before, per step"),
    "kernel_ms": ms("how long the kernels run, per step"),
}
PHASE = Record("phase", "The launches of one phase", {"phase": one_of("the phase", PHASES), **LAUNCHED})
LAUNCHER = Record(
    "launcher", "The launches of one name", {"name": maybe(text("the name; null outside of any")), **LAUNCHED}
)
BLOCKER = Record(
    "blocker",
    "What forbids to capture the step as one CUDA graph",
    {
        "what": text("a cause of waits, or a sentence"),
        **PLACE,
        "per_step": number("how often; 0 for what is of the step as a whole"),
    },
)
LAUNCHES = Record(
    "launches",
    "How the host launches kernels, as traced",
    {
        "per_step": number("calls that launch kernels"),
        "median_kernel_us": number("the median length of a kernel", US),
        "host_us_per_launch": number("the host's time per launch, without waits and long pauses", US),
        "phases": many("by phase of the step", PHASE),
        "ops": many("by the outermost op, the 50 with most launches", LAUNCHER),
        "modules": many("by the innermost module, likewise; none without Python stacks", LAUNCHER),
        "blockers": maybe(many("what one graph of the step could not hold; null where waits are withheld", BLOCKER)),
    },
)
ORIGINS = ("user", "torch", "library")
SAMPLED: Fields = {
    "samples": count("how many samples"),
    "share": share("of all samples"),
    "error": share("by how much that may be off, either way, with 95 % confidence"),
    "per_step_ms": maybe(ms("the same share of the measured step")),
}
HOST_LINE = Record(
    "host_line",
    "A line, or a function, of any code",
    {
        **PLACE,
        "origin": one_of("whose code it is", ORIGINS),
        **SAMPLED,
        "total": count("samples that have it in their stack; `samples` has it innermost"),
        "total_share": share("of all samples"),
    },
)
CALLED = Record(
    "called",
    "A line of your code, and what went on when it was the innermost line of yours",
    {**PLACE, **SAMPLED, "kinds": by_name("samples by kind", count(""))},
)
KIND = Record("kind", "Samples of one kind", {"kind": one_of("what the innermost code is", KINDS), **SAMPLED})
FRAME = Record("frame", "A frame of a sampled stack", {**PLACE, "origin": one_of("whose code it is", ORIGINS)})
STACK = Record(
    "stack",
    "A stack, and how often it was met",
    {"frames": many("indices into `frames`, the outermost first", count("")), "count": count("samples")},
)
HOST_PROFILE = Record(
    "host_profile",
    "Where the host's time goes, by Python stacks sampled while no profiler ran",
    {
        "interval_ms": ms("the mean time between samples"),
        "samples": count("how many"),
        "steps": count("whole steps in which they were taken"),
        "window_ms": ms("how long these took together"),
        "frames": many("all frames", FRAME),
        "stacks": many("all stacks", STACK),
        "folded": count("further samples, of stacks that are not kept"),
        "why_not": maybe(words("why there are no samples, or none of the later steps")),
        "kinds": many("by kind; they add up to all samples", KIND),
        "called": many("by your innermost line; they add up to all samples", CALLED),
        "lines": many("by line of any code, most samples first", HOST_LINE),
        "functions": many("by function of any code", HOST_LINE),
    },
)
HOST_MEMORY = Record(
    "host_memory",
    "Memory that torch had pinned after the last recorded step",
    {
        "pinned_bytes": count("pinned, in use or kept for later", BYTES),
        "used_bytes": maybe(count("the part in use; null where torch miscounts it", BYTES)),
        "peak_bytes": count("the most that was pinned so far", BYTES),
        "total_bytes": count("the machine's memory", BYTES),
        "available_bytes": count("what the machine could still give to programs", BYTES),
        "limit_bytes": maybe(count("what the process may have; null without a limit", BYTES)),
    },
)
