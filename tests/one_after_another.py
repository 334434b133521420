"""A hand-built trace of a program that reads many values right after each other: each wait alone only moves."""

from trace_builder import TraceBuilder

STEPS, STEP_US = 4, 10_000
KERNEL_US = 4_000
"""The kernel for whose end the first of the reads waits; each of the others waits for a copy of 1 µs alone."""


def one_after_another(reads: int) -> TraceBuilder:
    """Return a trace of steps in which so many functions read a value; then the host works for 3 ms and launches."""
    builder = TraceBuilder()
    for first in builder.steps(STEPS, STEP_US):
        builder.kernel(first + 20, KERNEL_US, launch=first + 10)
        for read in range(reads):
            start, copied = first + (30 if read == 0 else 4_020 + 10 * read), first + 4_024 + 10 * read
            builder.function(f"train.py({10 + read}): value{read}", start, copied + 5 - start)
            builder.op("aten::item", start + 1, copied + 4 - start - 1)
            builder.copy("DtoH (Device -> Pinned)", copied, 1, launch=start + 1, size=4)
            builder.call("cudaStreamSynchronize", start + 3, copied + 2 - start - 3)
        after = first + 4_030 + 10 * reads
        builder.op("aten::sort", after, 3_000)
        builder.kernel(after + 3_020, 2_700, launch=after + 3_010)
    return builder
