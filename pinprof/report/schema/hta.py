"""HTA's breakdowns in the report: fields, as HTA defines the figures."""

from pinprof.report.schema.field import Record, count, many, maybe, ms, number, one, share, text, words

TIMES = Record(
    "hta_times",
    "What the GPU does from its first work to its last",
    {
        "idle_ms": ms("nothing"),
        "compute_ms": ms("kernels that compute"),
        "other_ms": ms("only copies, memsets and communication"),
        "span_ms": ms("the sum"),
    },
)
KERNEL = Record(
    "hta_kernel",
    "A kernel, or copies or memsets of one kind",
    {
        "name": text("its name"),
        "kind": text("COMPUTATION, COMMUNICATION or MEMORY"),
        "time_ms": ms("their time"),
        "mean_ms": ms("the mean of one"),
        "max_ms": ms("the longest"),
    },
)
STREAM = Record(
    "hta_stream",
    "The gaps of a stream by HTA's cause, and its queue",
    {
        "stream": count("the stream"),
        "host_wait_ms": ms("gaps that began before the launch of the next work"),
        "kernel_wait_ms": ms("other gaps under 30 µs"),
        "other_ms": ms("all other gaps"),
        "mean_queue": maybe(number("work that was launched and had not begun, in the mean")),
        "longest_queue": maybe(count("the most of it")),
    },
)
LAUNCHES = Record(
    "hta_launches",
    "Launches whose work is in the trace",
    {
        "count": count("how many"),
        "longer_than_work": count("those that take longer than their work"),
        "slow": count("those over 50 µs"),
        "late": count("those whose work begins more than 100 µs later"),
    },
)
HTA = Record(
    "hta",
    "HTA's figures on the trace without its last step (`--hta`)",
    {
        "times": maybe(one("what the GPU does", TIMES)),
        "overlapped": maybe(share("communication time beside which the GPU computes")),
        "kernels": many("by time", KERNEL),
        "streams": many("by stream", STREAM),
        "launches": maybe(one("launches", LAUNCHES)),
        "failed": many("methods of HTA that raised, with the error", words("")),
    },
)
