"""HolisticTraceAnalysis (HTA) on traces that pinprof reads: many times faster, and from files, URLs and folders.

    analysis = pinprof.hta.trace_analysis(["rank0.json.gz", "rank1.json.gz"])
    analysis.get_temporal_breakdown(visualize=False)

The result is an `hta.trace_analysis.TraceAnalysis` with all its methods. They return what HTA 0.5 returns with its own
loader, except where that is wrong:

- Times have all nanoseconds, as with HTA's own switch HTA_DISABLE_NS_ROUNDING=1. Otherwise HTA rounds both ends of an
  event inward to whole microseconds, so that an event within one microsecond gets the duration -1.
- Synchronizations (`cuda_sync`) are not GPU work. HTA takes those of streams for kernels: as busy time in the temporal
  breakdown, `Stream Wait Event` as computation in the kernel breakdown and in the overlap of communication, and as
  members of kernel sequences. Critical paths need them, and get them.
- Stream 0. HTA gives its work no iteration. Here it has the iteration of its launch, as on other streams. Numbers that
  ROCm writes as text (`"9216"`, `"0x0"`) are numbers. A host op that names the stream it launches to, as torch.compile
  writes it, is not GPU work.
- `end` is on the axis of `ts`; HTA leaves it on the file's clock. So `include_last_profiler_step=True` ends with the
  last step; in HTA it goes on to the end of the trace.
- Events with corrupt times (0, years away, negative durations) are left out, as in pinprof's own tables.

Errors of HTA after the loading remain.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pinprof.hta.recording import TraceSource, recorded_ranks


def trace_analysis(
    traces: TraceSource | Sequence[TraceSource] | Mapping[int, TraceSource], *, include_last_profiler_step: bool = False
) -> Any:
    """Return a TraceAnalysis of HTA on traces: paths, URLs, folders, patterns, or traces that were read.

    The rank of a trace comes from the mapping, the recording or the file's name (`rank3`), in this order; a single
    trace of unknown rank is rank 0. The file of a trace that was read is read again, because HTA needs more columns
    than pinprof keeps. HTA leaves out the last step unless `include_last_profiler_step`. Times are in microseconds.

    Methods that write a copy of the trace raise PinprofError if they would overwrite it.

    Raises TraceError if a trace cannot be read, PinprofError if a rank is unknown or given twice.
    """
    from pinprof.hta.analysis import analysis_of  # noqa: PLC0415  HTA is slow to load

    return analysis_of(recorded_ranks(traces), include_last=include_last_profiler_step)
